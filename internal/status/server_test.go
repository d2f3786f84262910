package status

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/tasks"
)

func TestErrorsAreProblems(t *testing.T) {
	h := New(Config{Source: boardWith(sample(9))})
	for _, c := range []struct {
		method, path string
		status       int
		reason, says string
	}{
		{"GET", "/nowhere", 404, api.ReasonNotFound, "/nowhere"},
		{"GET", "/api/v1/tasks/topics/none", 404, api.ReasonNotFound, "topics/none"},
		{"GET", "/api/v1/instances/none", 404, api.ReasonNotFound, "none"},
		{"POST", "/api/v1/tasks/topics/topic-0001/pause", 404, api.ReasonNotFound, "pause"},
		{"POST", "/api/v1/tasks", 405, api.ReasonMethodNotAllowed, "GET"},
		{"DELETE", "/", 405, api.ReasonMethodNotAllowed, "GET"},
		{"GET", "/api/v1/tasks?limit=0", 400, api.ReasonInvalid, "from 1 to 5000"},
		{"GET", "/api/v1/tasks?limit=5001", 400, api.ReasonInvalid, "from 1 to 5000"},
		{"GET", "/api/v1/tasks?limit=many", 400, api.ReasonInvalid, "many"},
		{"GET", "/api/v1/tasks?state=sleeping", 400, api.ReasonInvalid, "unassigned"},
		{"GET", "/api/v1/tasks?selector=a%20b", 400, api.ReasonInvalid, "k notin (a,b)"},
		{"GET", "/api/v1/tasks?goup=topics", 400, api.ReasonInvalid, "group"},
		{"GET", "/api/v1/tasks?continue=zzz", 400, api.ReasonInvalid, "continue"},
		{"GET", "/api/v1/tasks?watch=perhaps", 400, api.ReasonInvalid, "true nor false"},
		{"GET", "/api/v1/tasks?a=%zz", 400, api.ReasonInvalid, "zz"},
		{"GET", "/api/v1/events?since=soon", 400, api.ReasonInvalid, "soon"},
		{"GET", "/api/v1/locks?selector=a", 400, api.ReasonInvalid, "selector"},
		{"GET", "/api/v1/locks?kind=mutx", 400, api.ReasonInvalid, "kind"},
		{"GET", "/api/v1/tasks/topics/topic-0001/logs?tail=0", 400, api.ReasonInvalid, "from 1 to 1000"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, c.path, http.NoBody))
		var e Error
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
			t.Errorf("%s %s: %v in %s", c.method, c.path, err, w.Body)
			continue
		}
		if w.Code != c.status || e.Status != c.status || e.Reason != c.reason || !strings.Contains(e.Detail, c.says) {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
		if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("%s %s: %s", c.method, c.path, got)
		}
		if got := w.Header().Get("Allow"); (c.status == 405) != (got == "GET, HEAD") {
			t.Errorf("%s %s: Allow %q", c.method, c.path, got)
		}
	}
}

func TestAllThatIsWrongIsReportedAtOnce(t *testing.T) {
	w := get(t, New(Config{Source: boardWith(sample(1))}), "/api/v1/tasks?limit=0&state=x&oops=1")
	var e Error
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || len(e.Errors) != 3 {
		t.Errorf("%v: %s", err, w.Body)
	}
}

func TestListsSelect(t *testing.T) {
	h := New(Config{Source: boardWith(sample(9))})
	for path, want := range map[string]int{
		"/api/v1/tasks":                                  9,
		"/api/v1/tasks?group=topics":                     9,
		"/api/v1/tasks?group=other":                      0,
		"/api/v1/tasks?instance=a":                       2,
		"/api/v1/tasks?instance=a&instance=b":            5,
		"/api/v1/tasks?state=unassigned":                 1,
		"/api/v1/tasks?state=unassigned,running":         9,
		"/api/v1/tasks?selector=team%3Dcore":             4,
		"/api/v1/tasks?selector=team%20in%20(core,edge)": 9,
		"/api/v1/tasks?q=TOPIC-0003":                     1,
		"/api/v1/tasks?instance=a&selector=team%3Dcore":  1,
		"/api/v1/instances":                              3,
		"/api/v1/instances?state=dead":                   0,
		"/api/v1/instances?group=topics&instance=b":      1,
		"/api/v1/groups":                                 1,
		"/api/v1/groups?q=top":                           1,
		"/api/v1/groups?group=none":                      0,
		"/api/v1/locks?instance=c":                       3,
		"/api/v1/locks?kind=task&instance=c":             3,
		"/api/v1/locks?kind=mutex,chore":                 0,
		"/api/v1/events":                                 0,
	} {
		list := decode[api.List[json.RawMessage]](t, get(t, h, path))
		if len(list.Items) != want {
			t.Errorf("%s: got %d, want %d", path, len(list.Items), want)
		}
	}
	if got := decode[api.Task](t, get(t, h, "/api/v1/tasks/topics/topic-0002")); got.Instance != "c" {
		t.Errorf("got %+v", got)
	}
	if got := decode[api.Instance](t, get(t, h, "/api/v1/instances/b")); got.Session != "session-b" {
		t.Errorf("got %+v", got)
	}
}

func TestPagesMakeTheWholeList(t *testing.T) {
	const n = 1203
	h := New(Config{Source: boardWith(sample(n))})
	var keys []string
	pages, next := 0, ""
	for {
		list := decode[api.List[api.Task]](
			t, get(t, h, "/api/v1/tasks?group=topics&limit=100&continue="+url.QueryEscape(next)),
		)
		for _, task := range list.Items {
			keys = append(keys, task.Key)
		}
		pages++
		if next = list.Continue; next == "" {
			break
		}
	}
	if pages != 13 || len(keys) != n {
		t.Fatalf("%d pages, %d tasks", pages, len(keys))
	}
	for i := 1; i < n; i++ {
		if keys[i-1] >= keys[i] {
			t.Fatalf("%s before %s", keys[i-1], keys[i])
		}
	}
}

func TestPagesGoOnWhereTheLastKeyIsGone(t *testing.T) {
	board := boardWith(sample(9))
	h := New(Config{Source: board})
	list := decode[api.List[api.Task]](t, get(t, h, "/api/v1/tasks?limit=3"))
	after := clone(t, board.Snapshot())
	after.Tasks = append(after.Tasks[:2], after.Tasks[3:]...)
	board.Publish(after)
	list = decode[api.List[api.Task]](t, get(t, h, "/api/v1/tasks?limit=3&continue="+list.Continue))
	if list.Items[0].Name != "topic-0004" {
		t.Errorf("went on at %s", list.Items[0].Name)
	}
}

func TestTokensEnd(t *testing.T) {
	c := Config{Source: boardWith(sample(9))}.withDefaults()
	s := newServer(c)
	now := epoch
	s.now = func() time.Time { return now }
	h := handler(c, s)
	next := decode[api.List[api.Task]](t, get(t, h, "/api/v1/tasks?limit=3")).Continue
	if w := get(t, h, "/api/v1/tasks?limit=3&group=topics&continue="+next); w.Code != http.StatusBadRequest {
		t.Errorf("other conditions: %d", w.Code)
	}
	if w := get(t, h, "/api/v1/locks?limit=3&continue="+next); w.Code != http.StatusBadRequest {
		t.Errorf("another list: %d", w.Code)
	}
	now = epoch.Add(tokenLife - time.Second)
	second := decode[api.List[api.Task]](t, get(t, h, "/api/v1/tasks?limit=3&continue="+next)).Continue
	now = epoch.Add(tokenLife + time.Second)
	if w := get(t, h, "/api/v1/tasks?limit=3&continue="+second); w.Code != http.StatusGone {
		t.Errorf("the age of the first page does not count on later ones: %d", w.Code)
	}
}

func TestBeforeTheFirstSnapshot(t *testing.T) {
	h := New(Config{Source: &Board{}})
	for path, want := range map[string]int{
		"/": 200, "/livez": 200, "/metrics": 200, "/openapi.json": 200,
		"/readyz": 503, "/api/v1/status": 503, "/api/v1/tasks": 503, "/api/v1/tasks/a/b": 503,
		"/api/v1/instances/a": 503,
	} {
		w := get(t, h, path)
		if w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
		}
		if (w.Header().Get("Retry-After") != "") != (want == 503) {
			t.Errorf("%s: Retry-After %q", path, w.Header().Get("Retry-After"))
		}
	}
}

func TestUnreachableStoreDegrades(t *testing.T) {
	s := sample(9)
	s.Status.Stale, s.Status.Store = true, api.Store{Kind: "mongodb", Error: "no reachable servers"}
	h := New(Config{Source: boardWith(s)})
	if got := decode[api.Status](t, get(t, h, "/api/v1/status")); !got.Stale || got.Store.Reachable {
		t.Errorf("got %+v", got)
	}
	for path, has := range map[string]string{
		"/api/v1/tasks/topics/topic-0001": `"key":"topics/topic-0001"`, "/api/v1/groups/topics": `"name":"topics"`,
		"/api/v1/instances/a": `"name":"a"`,
	} {
		text := get(t, h, path).Body.String()
		if !strings.Contains(text, has) || !strings.HasSuffix(text, ",\"stale\":true}\n") {
			t.Errorf("%s: %s", path, text)
		}
	}
	if got := decode[api.List[api.Task]](t, get(t, h, "/api/v1/tasks")); !got.Stale || len(got.Items) != 9 {
		t.Errorf("got %+v", got)
	}
	if w := get(t, h, "/readyz"); w.Code != 200 {
		t.Errorf("readyz: %d", w.Code)
	}
}

func TestHealth(t *testing.T) {
	draining := sample(1)
	draining.Status.Draining = true
	bad := func() error { return errors.New("stuck") }
	for name, c := range map[string]struct {
		config       Config
		livez, ready int
	}{
		"fine":     {Config{Source: boardWith(sample(1))}, 200, 200},
		"draining": {Config{Source: boardWith(draining)}, 200, 503},
		"asked":    {Config{Source: boardWith(sample(1)), Live: bad, Ready: bad}, 503, 503},
	} {
		h := New(c.config)
		if w := get(t, h, "/livez"); w.Code != c.livez {
			t.Errorf("%s: livez %d", name, w.Code)
		}
		if w := get(t, h, "/readyz"); w.Code != c.ready {
			t.Errorf("%s: readyz %d", name, w.Code)
		}
	}
}

func TestAPanicIsAnAnswer(t *testing.T) {
	w := get(t, New(Config{Source: boardWith(sample(1)), Ready: func() error { panic("oops") }}), "/readyz")
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "oops") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type fakeLogs map[string][]string

func (f fakeLogs) Output(key string) (tasks.Output, bool) {
	kept := tasks.Output{Held: true}
	for i, text := range f[key] {
		kept.Lines = append(kept.Lines, tasks.Line{Seq: uint64(i + 1), Text: text})
	}
	return kept, f[key] != nil
}

func TestLogsComeFromTheOwner(t *testing.T) {
	owner := sample(9)
	owner.Status.Instance = "c"
	there := httptest.NewServer(
		New(Config{Source: boardWith(owner), Logs: fakeLogs{"topics/topic-0002": {"x", "y", "z"}}}),
	)
	defer there.Close()

	s := sample(9)
	s.Instances[2].Address = strings.TrimPrefix(there.URL, "http://")
	h := New(Config{Source: boardWith(s), Logs: fakeLogs{"topics/topic-0003": {"one", "two"}}})
	for path, want := range map[string]string{
		"topic-0003/logs":        "one\ntwo\n",
		"topic-0003/logs?tail=1": "two\n",
		"topic-0002/logs?tail=2": "y\nz\n",
	} {
		if w := get(t, h, "/api/v1/tasks/topics/"+path); w.Code != 200 || w.Body.String() != want {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
	for path, want := range map[string]int{
		"topic-0005/logs":           503, // of c, which keeps none of it
		"topic-0001/logs":           503, // of b, which has no address
		"topic-0006/logs":           404, // of a itself
		"topic-0009/logs":           404, // no replica runs it
		"none/logs":                 404,
		"topic-0003/logs?after=%00": 400,
	} {
		if w := get(t, h, "/api/v1/tasks/topics/"+path); w.Code != want {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
}

// TestLogsGoOn holds that a reader gets what was written since its last answer, and all of it from another owner.
func TestLogsGoOn(t *testing.T) {
	b, kept := boardWith(sample(3)), fakeLogs{"topics/topic-0001": {"one", "two"}}
	h := New(Config{Source: b, Logs: kept})
	position := ""
	read := func(query string) string {
		w := get(t, h, "/api/v1/tasks/topics/topic-0001/logs?"+query+"&after="+url.QueryEscape(position))
		if w.Code != 200 || w.Header().Get(api.LogPositionHeader) == "" {
			t.Fatalf("%d %s, header %v", w.Code, w.Body, w.Header())
		}
		position = w.Header().Get(api.LogPositionHeader)
		return w.Body.String()
	}
	for _, step := range []struct {
		written []string
		query   string
		want    string
	}{
		{nil, "tail=1", "two\n"},
		{nil, "", ""},
		{[]string{"three", "III"}, "", "three\nIII\n"},
		{[]string{"four", "five"}, "tail=1", "five\n"},
	} {
		kept["topics/topic-0001"] = append(kept["topics/topic-0001"], step.written...)
		if got := read(step.query); got != step.want {
			t.Errorf("after %v: got %q, want %q", step.written, got, step.want)
		}
	}
	position = "b@5#2"
	if got := read("tail=2"); got != "four\nfive\n" {
		t.Errorf("after another owner: %q", got)
	}
}

func TestRequestsAreForwardedOnce(t *testing.T) {
	s := sample(9)
	asked := 0
	var h http.Handler
	loop := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked++; h.ServeHTTP(w, r) }),
	)
	defer loop.Close()
	s.Instances[2].Address = loop.URL
	h = New(Config{Source: boardWith(s)})
	if w := get(t, h, "/api/v1/tasks/topics/topic-0002/logs"); w.Code != 503 || asked != 1 {
		t.Errorf("%d after %d requests", w.Code, asked)
	}
}

// An address is what a member says of itself. It says which host is asked, and nothing of what is asked there.
func TestAddressesLeadToOutputAlone(t *testing.T) {
	var asked []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		_, _ = w.Write([]byte("output\n"))
	}))
	defer elsewhere.Close()
	s := sample(9)
	h := New(Config{Source: boardWith(s)})
	host := strings.TrimPrefix(elsewhere.URL, "http://")
	const path = "/api/v1/tasks/topics/topic-0002/logs"
	for _, address := range []string{
		elsewhere.URL + "/secret#", host + "/secret#", elsewhere.URL + "/secret?", elsewhere.URL + "#",
		elsewhere.URL + "/secret", "user@" + host, "ftp://" + host, "http://", "%",
	} {
		s.Instances[2].Address = address
		if w := get(t, h, path); w.Code != http.StatusServiceUnavailable || len(asked) > 0 {
			t.Errorf("%s: %d, asked %q", address, w.Code, asked)
		}
	}
	for _, address := range []string{host, host + "/", elsewhere.URL, elsewhere.URL + "/"} {
		s.Instances[2].Address, asked = address, nil
		if w := get(t, h, path); w.Code != http.StatusOK || len(asked) != 1 || asked[0] != path {
			t.Errorf("%s: %d, asked %q", address, w.Code, asked)
		}
	}
}

// What replicas ask each other does not go through a proxy that the environment names for the world outside.
func TestReplicasAskEachOtherDirectly(t *testing.T) {
	transport := http.DefaultTransport.(*http.Transport)
	proxy := transport.Proxy
	defer func() { transport.Proxy = proxy }()
	transport.Proxy = func(r *http.Request) (*url.URL, error) {
		t.Errorf("a proxy is looked for, for %s", r.URL)
		return nil, nil
	}
	owner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("output\n"))
	}))
	defer owner.Close()
	s := sample(9)
	s.Instances[2].Address = owner.URL
	for _, peers := range []*http.Client{nil, {Timeout: time.Minute}} {
		w := get(t, New(Config{Source: boardWith(s), Peers: peers}), "/api/v1/tasks/topics/topic-0002/logs")
		if w.Code != http.StatusOK || w.Body.String() != "output\n" {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	}
}

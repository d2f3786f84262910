package status

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
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
		{"GET", "/api/v1/tasks?name=a[", 400, api.ReasonInvalid, "not a pattern"},
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
		var e web.Error
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
	var e web.Error
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
		"/api/v1/tasks?name=topics/topic-0003":           1,
		"/api/v1/tasks?name=topic-0003":                  0,
		"/api/v1/tasks?name=*/topic-000[12]":             2,
		"/api/v1/tasks?name=topics/none&name=topics/*4":  1,
		"/api/v1/tasks?instance=a":                       2,
		"/api/v1/tasks?instance=a&instance=b":            5,
		"/api/v1/tasks?state=unassigned":                 1,
		"/api/v1/tasks?state=unassigned,running":         9,
		"/api/v1/tasks?selector=team%3Dcore":             4,
		"/api/v1/tasks?selector=team%20in%20(core,edge)": 9,
		"/api/v1/tasks?q=TOPIC-0003":                     1,
		"/api/v1/tasks?instance=a&selector=team%3Dcore":  1,
		"/api/v1/instances":                              3,
		"/api/v1/instances?name=a&name=none":             1,
		"/api/v1/instances?state=dead":                   0,
		"/api/v1/instances?group=topics&instance=b":      1,
		"/api/v1/groups":                                 1,
		"/api/v1/groups?name=top*":                       1,
		"/api/v1/groups?q=top":                           1,
		"/api/v1/groups?group=none":                      0,
		"/api/v1/locks?name=topics/*3":                   1,
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
	after.Tasks = snapshot.Listed(slices.Delete(after.Tasks.All(), 2, 3))
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
	h := New(Config{Source: &snapshot.Board{}})
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
	bad, good := func() error { return errors.New("stuck") }, func() error { return nil }
	for name, c := range map[string]struct {
		config       Config
		livez, ready int
	}{
		"fine":     {Config{Source: boardWith(sample(1))}, 200, 200},
		"draining": {Config{Source: boardWith(draining)}, 200, 503},
		"asked":    {Config{Source: boardWith(sample(1)), Live: bad, Ready: bad}, 503, 503},
		"both":     {Config{Source: boardWith(draining), Ready: good}, 200, 503},
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

type fakeRuns []api.Run

func (f fakeRuns) Runs(_ context.Context, key string) ([]api.Run, error) {
	if key == "topics/topic-0002" {
		return nil, errors.New("unreachable")
	}
	return f, nil
}

func TestRunsOfATask(t *testing.T) {
	h := New(Config{Source: boardWith(sample(3)), Runs: fakeRuns{{
		ScheduledAt: api.Time{Time: epoch}, Result: "Failed", ExitCode: 3, Attempt: 2, Instance: "a",
		Output: "disk full",
	}}})
	got := decode[api.List[api.Run]](t, get(t, h, "/api/v1/tasks/topics/topic-0001/runs"))
	if len(got.Items) != 1 || got.Items[0].Output != "disk full" || got.Items[0].ExitCode != 3 {
		t.Errorf("%+v", got)
	}
	for path, want := range map[string]int{
		"/api/v1/tasks/topics/topic-0002/runs": http.StatusServiceUnavailable,
		"/api/v1/tasks/topics/none/runs":       http.StatusNotFound,
	} {
		if w := get(t, h, path); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

func TestGroupByName(t *testing.T) {
	h := New(Config{Source: boardWith(sample(3))})
	if g := decode[api.Group](t, get(t, h, "/api/v1/groups/topics")); g.Name != "topics" || g.Tasks != 3 {
		t.Errorf("%+v", g)
	}
	if w := get(t, h, "/api/v1/groups/none"); w.Code != http.StatusNotFound {
		t.Errorf("%d", w.Code)
	}
}

func TestInstancesThatLeftAreHiddenUnlessAskedFor(t *testing.T) {
	s := sample(3)
	s.Instances[1].State, s.Instances[1].Message = api.Left, "it left in order"
	h := New(Config{Source: boardWith(s)})
	for path, want := range map[string]int{
		"/api/v1/instances": 2, "/api/v1/instances?state=left": 1, "/api/v1/instances?state=live,left": 3,
		"/api/v1/instances?instance=b": 1,
	} {
		if got := decode[api.List[api.Instance]](t, get(t, h, path)); len(got.Items) != want {
			t.Errorf("%s: %d, want %d", path, len(got.Items), want)
		}
	}
	if i := decode[api.Instance](t, get(t, h, "/api/v1/instances/b")); i.State != api.Left || i.Message == "" {
		t.Errorf("%+v", i)
	}
}

func TestEventsOfOneTask(t *testing.T) {
	store := &eventStore{}
	store.add("1", "2", "3")
	store.mu.Lock()
	store.events[0].Key, store.events[1].Key, store.events[2].Key = "topics/a", "topics/a1", "topics/a"
	store.mu.Unlock()
	h := New(Config{Source: boardWith(sample(3)), Events: store})
	for query, want := range map[string]int{
		"task=topics/a": 2, "name=topics/a": 2, "name=topics/a*": 3, "name=*/a1&limit=1": 1,
	} {
		if got := decode[api.List[api.Event]](t, get(t, h, "/api/v1/events?"+query)); len(got.Items) != want {
			t.Errorf("%s: %+v", query, got.Items)
		}
	}
}

func TestOverridesAreSelected(t *testing.T) {
	s := sample(3)
	s.Tasks.All()[1].Labels = api.Labels{"team": "core"}
	s.Overrides = []api.Override{
		{Kind: "pin", Scope: "task", Name: s.Tasks.All()[1].Key, To: "a", By: "ann"},
		{Kind: "pause", Scope: "group", Name: "topics", Reason: "a flood"},
		{Kind: "pause", Scope: "task", Name: "gone/task", By: "bob"},
		{Kind: "drain", Scope: "instance", Name: "a"},
		{Kind: "cordon", Scope: "instance", Name: "b"},
	}
	s.Sort()
	h := New(Config{Source: boardWith(s)})
	for query, want := range map[string]string{
		"":                         "cordon b, drain a, pause topics, pause gone/task, pin " + s.Tasks.All()[1].Key,
		"group=topics":             "pause topics, pin " + s.Tasks.All()[1].Key,
		"group=gone":               "pause gone/task",
		"instance=a":               "drain a, pin " + s.Tasks.All()[1].Key,
		"instance=a&group=topics":  "pin " + s.Tasks.All()[1].Key,
		"selector=team%3Dcore":     "pin " + s.Tasks.All()[1].Key,
		"name=a&name=gone/*":       "drain a, pause gone/task",
		"q=FLOOD":                  "pause topics",
		"q=bob":                    "pause gone/task",
		"group=none":               "",
		"instance=b&selector=team": "",
	} {
		var list api.List[api.Override]
		if err := json.Unmarshal(get(t, h, "/api/v1/overrides?"+query).Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range list.Items {
			got = append(got, o.Kind+" "+o.Name)
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%q: %s, want %s", query, text, want)
		}
	}
	var first api.List[api.Override]
	if err := json.Unmarshal(get(t, h, "/api/v1/overrides?limit=2").Body.Bytes(), &first); err != nil {
		t.Fatal(err)
	}
	var second api.List[api.Override]
	rest := get(t, h, "/api/v1/overrides?limit=5&continue="+url.QueryEscape(first.Continue)).Body.Bytes()
	if err := json.Unmarshal(rest, &second); err != nil || len(first.Items) != 2 || len(second.Items) != 3 ||
		second.Items[0].Name != "topics" || second.Continue != "" {
		t.Errorf("%+v and then %+v, %v", first, second, err)
	}
}

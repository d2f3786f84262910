package status

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/api"
)

type fakeLogs map[string][]string

func (f fakeLogs) Output(key string) (taskrun.Output, bool) {
	kept := taskrun.Output{Held: true}
	for i, text := range f[key] {
		kept.Lines = append(kept.Lines, taskrun.Line{Seq: uint64(i + 1), Text: text})
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

// keeps is what one replica keeps of a task.
type keeps taskrun.Output

func (k keeps) Output(string) (taskrun.Output, bool) { return taskrun.Output(k), k.Lines != nil }

// wrote is output of the task since the last claim, a line for each token of a start.
func wrote(held bool, claim int64, tokens ...int64) keeps {
	k := keeps{Held: held, Claim: claim}
	for i, token := range tokens {
		k.Token = token
		k.Lines = append(k.Lines, taskrun.Line{
			Seq: uint64(i + 1), Time: epoch.Add(time.Duration(i) * time.Second), Token: token,
			Text: "line of " + string(rune('0'+token)),
		})
	}
	return k
}

// TestLogsAreOfTheOwnersRun holds that the answer is from the run of the current owner, or says that it has ended: also
// while the replica that is asked, or the owner before, has not seen the hand-over.
func TestLogsAreOfTheOwnersRun(t *testing.T) {
	owned := func(self, owner string, token int64, addresses map[string]string) *snapshot.Cluster {
		s := sample(3)
		s.Status.Instance = self
		s.Tasks.All()[0].Instance, s.Tasks.All()[0].Session, s.Tasks.All()[0].FencingToken = owner, "session-"+owner, token
		for i := range s.Instances {
			s.Instances[i].Address = addresses[s.Instances[i].Name]
		}
		return s
	}
	for name, c := range map[string]struct {
		asked       string
		knows       string // the owner as the asked one knows it
		token       int64
		a           keeps
		aKnows      string
		aToken      int64
		b           keeps
		query, want string
		code        int
		by, ended   string
	}{
		"an old run here": {
			asked: "a", knows: "b", token: 8, a: wrote(false, 7, 7), b: wrote(true, 8, 8), want: "line of 8\n", by: "b",
		},
		"the replica that is asked is behind": {
			asked: "c", knows: "a", token: 7, a: wrote(false, 7, 7), aKnows: "b", aToken: 8, code: 503,
		},
		"all are behind": {
			asked: "c", knows: "a", token: 7, a: wrote(false, 7, 7), aKnows: "a", aToken: 7, want: "line of 7\n",
			by: "a", ended: "true",
		},
		"ended, and not owned": {
			asked: "a", token: 7, a: wrote(false, 7, 7), want: "line of 7\n", by: "a", ended: "true",
		},
		"not owned, and run elsewhere last": {asked: "a", token: 8, a: wrote(false, 7, 7), code: 404},
		"back again": {
			asked: "a", knows: "a", token: 9, a: wrote(true, 9, 7, 9), want: "line of 9\n", by: "a",
		},
		"restarts in place": {
			asked: "a", knows: "a", token: 9, a: wrote(true, 7, 7, 9), want: "line of 7\nline of 9\n", by: "a",
		},
		"previous": {
			asked: "c", knows: "a", token: 9, a: wrote(true, 7, 5, 7, 9), aKnows: "a", aToken: 9,
			query: "?previous=true",
			want:  "line of 7\n", by: "a",
		},
		"no previous": {
			asked: "a", knows: "a", token: 9, a: wrote(true, 9, 9), query: "?previous=true", want: "", by: "a",
		},
		"timestamps": {
			asked: "c", knows: "b", token: 8, b: wrote(true, 8, 8), query: "?timestamps=true",
			want: "2026-01-02T03:04:05Z line of 8\n", by: "b",
		},
		"of another instance": {
			asked: "c", knows: "b", token: 8, a: wrote(false, 7, 7), aKnows: "b", aToken: 8, b: wrote(true, 8, 8),
			query: "?instance=a", want: "line of 7\n", by: "a", ended: "true",
		},
		"of one that is not there": {asked: "a", knows: "a", token: 7, query: "?instance=z", code: 404},
		"neither true nor false":   {asked: "a", knows: "a", token: 7, query: "?previous=yes", code: 400},
	} {
		t.Run(name, func(t *testing.T) {
			a := httptest.NewServer(New(Config{Source: boardWith(owned("a", c.aKnows, c.aToken, nil)), Logs: c.a}))
			defer a.Close()
			b := httptest.NewServer(New(Config{Source: boardWith(owned("b", "b", 8, nil)), Logs: c.b}))
			defer b.Close()
			s := owned(c.asked, c.knows, c.token, map[string]string{"a": a.URL, "b": b.URL})
			if c.knows == "" {
				s.Tasks.All()[0].Owner = api.Owner{FencingToken: c.token}
			}
			here := map[string]keeps{"a": c.a, "b": c.b}[c.asked]
			w := get(t, New(Config{Source: boardWith(s), Logs: here}), "/api/v1/tasks/topics/topic-0001/logs"+c.query)
			if c.code != 0 {
				if w.Code != c.code {
					t.Errorf("%d %s, want %d", w.Code, w.Body, c.code)
				}
				return
			}
			by, ended := w.Header().Get(api.LogInstanceHeader), w.Header().Get(api.LogEndedHeader)
			if w.Code != 200 || w.Body.String() != c.want || by != c.by || ended != c.ended {
				t.Errorf("%d %q by %q, ended %q; want %q by %q, ended %q", w.Code, w.Body, by, ended, c.want, c.by,
					c.ended)
			}
		})
	}
}

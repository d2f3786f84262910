package admin_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/access"
	"github.com/shardctl/shardctl/internal/admin"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/api"
)

// written is what tasks of the instance wrote, and said of their end.
const (
	written   = "the password is 1234"
	lastError = "exit status 3: no such table"
)

// talkative holds output, runs and events of one task.
type talkative struct{}

func (talkative) Output(key string) (taskrun.Output, bool) {
	return taskrun.Output{Held: true, Lines: []taskrun.Line{{Seq: 1, Text: written}}}, key == "g/t"
}

func (talkative) Runs(context.Context, string) ([]api.Run, error) {
	return []api.Run{{Result: "Failed", Error: lastError, Output: written}}, nil
}

func (talkative) Events(context.Context, snapshot.EventQuery) ([]api.Event, error) {
	return []api.Event{{ID: "1", Type: snapshot.EventRunFailed, Key: "g/t", Message: lastError}}, nil
}

func (talkative) EventsChanged() <-chan struct{} { return nil }

// pair are two replicas: a, which is asked, and b, which runs the task. Both know the same tokens.
type pair struct {
	t              *testing.T
	admin, server  string // addresses of a
	mu             sync.Mutex
	askedOfB       []http.Header
	clockOfB       time.Duration // ahead of a's
	guardA, guardB *admin.Guard
}

// newPair starts them, with tokens or without. open says whether server.listen shows output.
func newPair(t *testing.T, tokens, open bool) *pair {
	t.Helper()
	p := &pair{t: t, guardA: &admin.Guard{Instance: "a"}, guardB: &admin.Guard{Instance: "b"}}
	p.guardB.Now = func() time.Time { return time.Now().Add(p.clockOfB) }
	if tokens {
		file := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(file, []byte("ann "+adminToken+"\neve "+readToken+" read\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, g := range []*admin.Guard{p.guardA, p.guardB} {
			var err error
			if g.Tokens, err = access.LoadTokens(file, logr.Discard()); err != nil {
				t.Fatal(err)
			}
		}
	}
	snapshot := func(self, addressOfB string) *snapshot.Board {
		b := &snapshot.Board{}
		s := &snapshot.Cluster{
			Tasks: snapshot.Listed([]api.Task{{
				Key: "g/t", Group: "g", Name: "t", Owner: api.Owner{Instance: "b", Session: "B"}, State: api.Running,
				LastError: lastError,
			}}),
			Instances: []api.Instance{{Name: "b", Session: "B", State: api.Live, Address: addressOfB}},
			Status: api.Status{Instance: self, Problems: []api.Problem{
				{Reason: api.ProblemTaskFailing, Task: "g/t", Message: "failed: " + lastError},
			}},
		}
		s.Sort()
		b.Publish(s)
		return b
	}
	var said talkative
	readB := status.New(status.Config{Source: snapshot("b", ""), Logs: said, Vouch: p.guardB.Vouch})
	shownB := p.guardB.ReadOnly(p.guardB.Output(readB, open))
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.askedOfB = append(p.askedOfB, r.Header.Clone())
		p.mu.Unlock()
		shownB.ServeHTTP(w, r)
	}))
	t.Cleanup(b.Close)
	board := snapshot("a", b.URL)
	readA := status.New(status.Config{Source: board, Runs: said, Events: said, Vouch: p.guardA.Vouch})
	adminA := httptest.NewServer(admin.New(admin.Config{
		Read: readA, Source: board, Changer: &changer{}, Guard: p.guardA, Logger: logr.Discard(),
	}))
	t.Cleanup(adminA.Close)
	serverA := httptest.NewServer(p.guardA.ReadOnly(p.guardA.Output(readA, open)))
	t.Cleanup(serverA.Close)
	p.admin, p.server = adminA.URL, serverA.URL
	return p
}

// get reads what an address answers, of a stream what it begins with.
func (p *pair) get(url, token string) (int, string) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		text := make([]byte, 0, 4096)
		for !strings.Contains(string(text), "\n\n") {
			part := make([]byte, 1024)
			n, err := resp.Body.Read(part)
			if text = append(text, part[:n]...); err != nil {
				p.t.Fatal(err)
			}
		}
		return resp.StatusCode, string(text)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// shows are the paths that show what tasks wrote, or what they said of their end.
var shows = []string{
	"/api/v1/tasks", "/api/v1/tasks?watch=true", "/api/v1/tasks/g/t", "/api/v1/tasks/g/t/runs", "/api/v1/status",
	"/api/v1/status?watch=true", "/api/v1/events", "/api/v1/events?watch=true",
}

// TestOutputNeedsAToken holds that where there are tokens, both listeners show what tasks wrote only to those who have
// one, and everything else to all.
func TestOutputNeedsAToken(t *testing.T) {
	p := newPair(t, true, true)
	for _, listener := range []string{p.admin, p.server} {
		for _, path := range append(shows, "/?view=plain") {
			code, body := p.get(listener+path, "")
			if code != 200 || strings.Contains(body, "no such table") || strings.Contains(body, "1234") {
				t.Errorf("%s without a token: %d %s", path, code, body)
			}
			if !strings.Contains(body, "hidden: it needs a token") {
				t.Errorf("%s does not say that something is hidden: %s", path, body)
			}
		}
		for _, path := range shows {
			if code, body := p.get(listener+path, readToken); code != 200 || !strings.Contains(body, "no such table") {
				t.Errorf("%s with a token: %d %s", path, code, body)
			}
		}
		if _, body := p.get(listener+"/api/v1/tasks?q=such+table", ""); strings.Contains(body, `"g/t"`) {
			t.Errorf("what is hidden can be searched: %s", body)
		}
		const logs = "/api/v1/tasks/g/t/logs"
		if code, body := p.get(listener+logs, ""); code != 401 || strings.Contains(body, written) {
			t.Errorf("logs without a token: %d %s", code, body)
		}
		if code, body := p.get(listener+logs, readToken); code != 200 || body != written+"\n" {
			t.Errorf("logs with a token: %d %s", code, body)
		}
		if code, body := p.get(listener+"/api/v1/tasks", "wrongwrongwrongwrong"); code != 401 {
			t.Errorf("a wrong token: %d %s", code, body)
		}
	}
}

// TestTokensAreNotPassedOn holds that a replica asks the owner of a task for its output without showing it the token.
// What it shows instead is good for nothing else, and not for long.
func TestTokensAreNotPassedOn(t *testing.T) {
	p := newPair(t, true, true)
	const logs = "/api/v1/tasks/g/t/logs?tail=7"
	if code, body := p.get(p.admin+logs, adminToken); code != 200 || body != written+"\n" {
		t.Fatalf("%d %s", code, body)
	}
	if len(p.askedOfB) != 1 {
		t.Fatalf("b was asked %d times", len(p.askedOfB))
	}
	for name, values := range p.askedOfB[0] {
		if name == "Authorization" || strings.Contains(strings.Join(values, " "), adminToken) {
			t.Errorf("b is shown %s: %s", name, values)
		}
	}
	proof := p.askedOfB[0].Get(status.ProofHeader)
	tokens := p.guardB.Tokens
	now := time.Now()
	if !tokens.Vouched(proof, "b "+logs, now) || !tokens.Vouched(proof, "b "+logs, now.Add(30*time.Second)) {
		t.Errorf("%q does not prove what was asked", proof)
	}
	for what, vouched := range map[string]bool{
		"another task":     tokens.Vouched(proof, "b /api/v1/tasks/g/u/logs?tail=7", now),
		"another replica":  tokens.Vouched(proof, "c "+logs, now),
		"later":            tokens.Vouched(proof, "b "+logs, now.Add(2*time.Minute)),
		"earlier":          tokens.Vouched(proof, "b "+logs, now.Add(-2*time.Minute)),
		"nothing":          tokens.Vouched("", "b "+logs, now),
		"another proof":    tokens.Vouched(proof+"A", "b "+logs, now),
		"another's moment": tokens.Vouched("1"+proof, "b "+logs, now),
	} {
		if vouched {
			t.Errorf("a proof counts for %s", what)
		}
	}
	p.clockOfB = 5 * time.Minute
	if code, _ := p.get(p.admin+logs, adminToken); code != 503 {
		t.Errorf("with a clock that is far ahead: %d", code)
	}
}

// TestOutputWithoutTokens holds that where there are none, server.logs decides for server.listen, and that admin.listen
// shows everything.
func TestOutputWithoutTokens(t *testing.T) {
	for _, open := range []bool{true, false} {
		p := newPair(t, false, open)
		for _, path := range shows {
			if _, body := p.get(p.admin+path, ""); !strings.Contains(body, "no such table") {
				t.Errorf("open %v: the admin listener hides %s: %s", open, path, body)
			}
			if _, body := p.get(p.server+path, ""); strings.Contains(body, "no such table") != open {
				t.Errorf("open %v: %s", open, body)
			}
		}
		code, body := p.get(p.server+"/api/v1/tasks/g/t/logs", "")
		if want := map[bool]int{true: 200, false: 403}[open]; code != want || strings.Contains(body, written) != open {
			t.Errorf("open %v: logs %d %s", open, code, body)
		}
	}
}

// A token that is taken back ends what is being read with it, on both listeners.
func TestStreamsEndWithTheirToken(t *testing.T) {
	l := serve(t, true)
	ended := make(chan string, 2)
	for _, url := range []string{l.url, l.reads} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/tasks?watch=true", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+readToken)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", url, resp.Status)
		}
		go func() {
			_, _ = io.Copy(io.Discard, resp.Body) // until it ends, however that is
			ended <- url
		}()
	}
	if err := os.WriteFile(l.tokens, []byte("ann "+adminToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("a stream goes on without its token")
		}
	}
}

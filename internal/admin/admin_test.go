package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/access"
	"github.com/shardctl/shardctl/internal/admin"
	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
)

const (
	adminToken   = "adminadminadminadmin"
	operateToken = "operateoperateoperate"
	readToken    = "readreadreadreadread"
	localToken   = "locallocallocallocal" // of a name that is that of all who need none
)

// changer notes what it is asked, and does nothing.
type changer struct {
	mu     sync.Mutex
	asked  []operate.Request
	result api.ChangeResult
	err    error
}

func (c *changer) Change(_ context.Context, r operate.Request, _ bool) (api.ChangeResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r)
	return c.result, c.err
}

func (c *changer) requests() []operate.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]operate.Request(nil), c.asked...)
}

func (c *changer) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = nil
}

// listener is a real server on loopback, next to one that only reads.
type listener struct {
	t       *testing.T
	url     string
	reads   string // the address of the other
	changer *changer
	handler http.Handler
	reader  http.Handler // of the other
	tokens  string       // the file, where there are tokens
	now     time.Time
}

// serve starts one with the three tokens, or without any.
func serve(t *testing.T, tokens bool) *listener {
	t.Helper()
	l := &listener{t: t, changer: &changer{}, now: time.Now()}
	guard := &admin.Guard{Now: func() time.Time { return l.now }}
	if tokens {
		l.tokens = filepath.Join(t.TempDir(), "tokens")
		text := "ann " + adminToken + "\nbot " + operateToken + " operate\neve " + readToken + " read\n" +
			"local " + localToken + " operate\n"
		if err := os.WriteFile(l.tokens, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if guard.Tokens, err = access.LoadTokens(l.tokens, logr.Discard()); err != nil {
			t.Fatal(err)
		}
	}
	board := &snapshot.Board{}
	snapshot := &snapshot.Cluster{
		Tasks: snapshot.Listed([]api.Task{
			{
				Key: "topics/topic-001", Group: "topics", Name: "topic-001", Kind: "exec", State: api.Running,
				Labels: api.Labels{"team": "core"},
			},
			{Key: "topics/topic-002", Group: "topics", Name: "topic-002", Kind: "exec", State: api.Running},
			{
				Key: "jobs/report", Group: "jobs", Name: "report", Kind: "exec", State: api.Waiting,
				Labels: api.Labels{"team": "core"},
			},
		}),
		Instances: []api.Instance{{Name: "a", Session: "A", State: api.Live}},
		Status:    api.Status{Groups: []api.Group{{Name: "topics"}, {Name: "jobs"}}},
	}
	snapshot.Sort()
	board.Publish(snapshot)
	read := status.New(status.Config{Source: board})
	l.handler = admin.New(admin.Config{
		Read: read, Source: board, Changer: l.changer, Guard: guard, Logger: logr.Discard(),
	})
	l.reader = guard.ReadOnly(guard.Output(read, true))
	server, reads := httptest.NewServer(l.handler), httptest.NewServer(l.reader)
	t.Cleanup(server.Close)
	t.Cleanup(reads.Close)
	l.url, l.reads = server.URL, reads.URL
	return l
}

// ask sends a request and returns the status and the body.
func (l *listener) ask(method, path, body string, headers ...string) (int, http.Header, string) {
	l.t.Helper()
	return l.askAt(l.url, method, path, body, headers...)
}

func (l *listener) askAt(url, method, path, body string, headers ...string) (int, http.Header, string) {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// nothingChanged checks an answer, and that nothing was asked of the cluster.
func (l *listener) nothingChanged(what string, code, want int, body string) {
	l.t.Helper()
	var e web.Error
	if err := json.Unmarshal([]byte(body), &e); err != nil || code != want || e.Status != want || e.Reason == "" ||
		e.Detail == "" {
		l.t.Errorf("%s: %d %s, want %d as problem+json", what, code, body, want)
	}
	if asked := l.changer.requests(); len(asked) > 0 {
		l.t.Errorf("%s: %+v was asked for", what, asked)
	}
	for _, token := range []string{adminToken, operateToken, readToken, localToken} {
		if strings.Contains(body, token) {
			l.t.Errorf("%s: the answer shows a token: %s", what, body)
		}
	}
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// With tokens, the token alone says who asks.
func TestWhoAsks(t *testing.T) {
	for _, test := range []struct{ token, body, want string }{
		{"", `{}`, "local"},
		{"", `{"by":"bob"}`, "bob"},
		{operateToken, `{"by":"bob"}`, "bot"},
		{localToken, `{"by":"bob"}`, "local"},
	} {
		l := serve(t, test.token != "")
		const path = "/api/v1/tasks/topics/topic-001/pause"
		code, _, body := l.ask(http.MethodPost, path, test.body, bearer(test.token)...)
		if asked := l.changer.requests(); code != 200 || len(asked) != 1 || asked[0].By != test.want {
			t.Errorf("%q: %d %s, %+v, want %s", test.token, code, body, asked, test.want)
		}
	}
}

func TestRolesAreHeeded(t *testing.T) {
	for _, test := range []struct {
		path, token string
		want        int
	}{
		{"/api/v1/instances/a/drain", "", 401},
		{"/api/v1/instances/a/drain", "wrongwrongwrongwrong", 401},
		{"/api/v1/instances/a/drain", readToken, 403},
		{"/api/v1/instances/a/drain", operateToken, 403},
		{"/api/v1/instances/a/drain", adminToken, 202},
		{"/api/v1/tasks/topics/topic-001/pause", readToken, 403},
		{"/api/v1/tasks/topics/topic-001/pause", operateToken, 200},
		{"/api/v1/tasks/topics/topic-001/restart", operateToken, 200},
		{"/api/v1/tasks/topics/topic-001/unpin", operateToken, 403},
		{"/api/v1/groups/topics/rebalance", operateToken, 403},
		{"/api/v1/groups/topics/rebalance", adminToken, 200},
	} {
		t.Run(fmt.Sprint(test.path, test.want), func(t *testing.T) {
			l := serve(t, true)
			var headers []string
			if test.token != "" {
				headers = bearer(test.token)
			}
			code, header, body := l.ask(http.MethodPost, test.path, `{}`, headers...)
			if test.want >= 400 {
				l.nothingChanged(test.path, code, test.want, body)
			} else if code != test.want || len(l.changer.requests()) != 1 {
				t.Errorf("%d %s, want %d", code, body, test.want)
			}
			if challenge := header.Get("WWW-Authenticate"); (challenge != "") != (code == 401) {
				t.Errorf("%d with the challenge %q", code, challenge)
			}
		})
	}
}

func TestWhatIsRefusedChangesNothing(t *testing.T) {
	const drain = "/api/v1/instances/a/drain"
	for name, test := range map[string]struct {
		method, path, body string
		headers            []string
		want               int
	}{
		"another origin":       {path: drain, headers: []string{"Origin", "http://evil.example"}, want: 403},
		"a page of another":    {path: drain, headers: []string{"Sec-Fetch-Site", "cross-site"}, want: 403},
		"a form":               {path: drain, headers: []string{"Content-Type", "text/plain"}, want: 415},
		"no type":              {path: drain, headers: []string{"Content-Type", ""}, want: 415},
		"another name":         {path: drain, headers: []string{"Host", "evil.example"}, want: 421},
		"a large body":         {path: drain, body: `{"reason":"` + strings.Repeat("x", 1<<20) + `"}`, want: 413},
		"no JSON":              {path: drain, body: `drain it`, want: 400},
		"two objects":          {path: drain, body: `{} {}`, want: 400},
		"an unknown field":     {path: drain, body: `{"force":true}`, want: 400},
		"a dry run of null":    {path: drain, body: `{"dryRun":null}`, want: 400},
		"a field in capitals":  {path: drain, body: `{"DRYRUN":true}`, want: 400},
		"null":                 {path: drain, body: `null`, want: 400},
		"a list":               {path: drain, body: `[]`, want: 400},
		"a task of null":       {path: "/api/v1/tasks/pause", body: `{"tasks":[null]}`, want: 400},
		"a number for a text":  {path: drain, body: `{"reason":1}`, want: 400},
		"a long reason":        {path: drain, body: `{"reason":"` + strings.Repeat("x", 2000) + `"}`, want: 400},
		"no time":              {path: drain, body: `{"for":"0s"}`, want: 400},
		"no duration":          {path: drain, body: `{"for":"ever"}`, want: 400},
		"too long":             {path: drain, body: `{"for":"8761h"}`, want: 400},
		"a while for others":   {path: "/api/v1/instances/a/undrain", body: `{"for":"1h"}`, want: 400},
		"a field for others":   {path: drain, body: `{"instance":"b"}`, want: 400},
		"names in two places":  {path: "/api/v1/tasks/topics/topic-001/pause", body: `{"group":"jobs"}`, want: 400},
		"GET":                  {method: http.MethodGet, path: drain, want: 405},
		"PUT":                  {method: http.MethodPut, path: drain, want: 405},
		"an unknown verb":      {path: "/api/v1/instances/a/explode", want: 404},
		"none selected":        {path: "/api/v1/tasks/pause", want: 400},
		"a blank selector":     {path: "/api/v1/tasks/pause", body: `{"selector":" "}`, want: 400},
		"a selector":           {path: "/api/v1/tasks/pause", body: `{"selector":"a in b"}`, want: 400},
		"a pattern":            {path: "/api/v1/tasks/pause", body: `{"tasks":["["]}`, want: 400},
		"a pattern of nothing": {path: "/api/v1/tasks/pause", body: `{"tasks":["none-*"]}`, want: 404},
	} {
		t.Run(name, func(t *testing.T) {
			l := serve(t, false)
			method := test.method
			if method == "" {
				method = http.MethodPost
			}
			code, header, body := l.ask(method, test.path, test.body, test.headers...)
			l.nothingChanged(name, code, test.want, body)
			if (header.Get("Allow") != "") != (code == 405) {
				t.Errorf("Allow is %q", header.Get("Allow"))
			}
		})
	}
}

func TestForeignNamesSeeNothing(t *testing.T) {
	l := serve(t, false)
	for _, url := range []string{l.url, l.reads} {
		for _, path := range []string{
			"/", "/api/v1/tasks", "/api/v1/tasks?watch=true", "/metrics", "/livez", "/openapi.json",
		} {
			code, _, body := l.askAt(url, http.MethodGet, path, "", "Host", "evil.example")
			l.nothingChanged(path, code, http.StatusMisdirectedRequest, body)
			if strings.Contains(body, "topic-001") {
				t.Errorf("%s shows %s", path, body)
			}
		}
		code, _, body := l.askAt(url, http.MethodPost, "/api/v1/instances/a/drain", "{}", "Host", "evil.example:8081")
		l.nothingChanged("drain", code, http.StatusMisdirectedRequest, body)
	}
}

func TestOneListenerOnlyReads(t *testing.T) {
	l := serve(t, true)
	for _, path := range append(posts(), "/api/v1/tasks", "/", "/nowhere") {
		code, header, body := l.askAt(l.reads, http.MethodPost, path, "{}", bearer(adminToken)...)
		l.nothingChanged(path, code, http.StatusMethodNotAllowed, body)
		if header.Get("Allow") != "GET, HEAD" || !strings.Contains(body, "admin.listen") {
			t.Errorf("%s: Allow %q, %s", path, header.Get("Allow"), body)
		}
	}
	if code, _, body := l.askAt(l.reads, http.MethodGet, "/api/v1/tasks", ""); code != 200 ||
		!strings.Contains(body, "topic-001") {
		t.Errorf("%d %s", code, body)
	}
}

func TestRequestsAreUnderstood(t *testing.T) {
	l := serve(t, true)
	ask := func(path, body string) string {
		t.Helper()
		code, _, answer := l.ask(http.MethodPost, path, body, bearer(adminToken)...)
		if code >= 300 {
			t.Errorf("%s: %d %s", path, code, answer)
		}
		return answer
	}
	task := ask("/api/v1/tasks/topics/topic-001/pin", `{"instance":"zone=a","strict":true,"reason":"near","id":"1"}`)
	if !strings.Contains(task, `"key":"topics/topic-001"`) {
		t.Errorf("the answer is %s, want the task", task)
	}
	ask("/api/v1/tasks/pause", `{"group":"topics","tasks":["topic-0*"],"for":"90m"}`)
	ask("/api/v1/tasks/restart", `{"selector":"team=core"}`)
	group := ask("/api/v1/groups/jobs/pause", ``)
	if !strings.Contains(group, `"name":"jobs"`) {
		t.Errorf("the answer is %s, want the group", group)
	}
	asked := l.changer.requests()
	if len(asked) != 4 {
		t.Fatalf("%+v", asked)
	}
	for i, want := range []string{
		"{pin task [topics/topic-001] zone=a true 0s ann near 1}",
		"{pause task [topics/topic-001 topics/topic-002]  false 1h30m0s ann  }",
		"{restart task [jobs/report topics/topic-001]  false 0s ann  }",
		"{pause group [jobs]  false 0s ann  }",
	} {
		if got := fmt.Sprint(asked[i]); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

var errUnreachable = fmt.Errorf("drain: %w", elect.ErrUnavailable)

func TestRefusalsAndOutagesAreTold(t *testing.T) {
	l := serve(t, false)
	for _, test := range []struct {
		result api.ChangeResult
		err    error
		want   int
		reason string
	}{
		{result: api.ChangeResult{
			Refused: []api.Refusal{{Name: "a", Reason: api.RefusedNoCapacity, Message: "full"}},
		}, want: 409, reason: api.RefusedNoCapacity},
		{
			result: api.ChangeResult{Refused: []api.Refusal{{Name: "a", Reason: api.ReasonNotFound, Message: "no"}}},
			want:   404, reason: "NotFound",
		},
		{err: errUnreachable, want: 503, reason: "StoreUnreachable"},
		{err: io.ErrUnexpectedEOF, want: 500, reason: "Internal"},
	} {
		l.changer.result, l.changer.err = test.result, test.err
		code, _, body := l.ask(http.MethodPost, "/api/v1/instances/a/drain", "")
		var e web.Error
		if err := json.Unmarshal([]byte(body), &e); err != nil || code != test.want || e.Reason != test.reason {
			t.Errorf("%d %s, want %d %s", code, body, test.want, test.reason)
		}
	}
}

func TestPageIsToldWhatItMayChange(t *testing.T) {
	for _, test := range []struct {
		tokens bool
		want   string
	}{{true, "token"}, {false, "open"}} {
		l := serve(t, test.tokens)
		for url, want := range map[string]string{l.url: test.want, l.reads: "none"} {
			if _, _, body := l.askAt(url, http.MethodGet, "/", ""); !strings.Contains(body, `data-changes="`+want+`"`) {
				t.Errorf("tokens %v: the page at %s does not say %q", test.tokens, url, want)
			}
		}
	}
}

// The log has each change and each refusal, and what may be written or not; nothing that was so before.
func TestChangesAreLogged(t *testing.T) {
	var lines []string
	asked := &changer{}
	board := &snapshot.Board{}
	board.Publish(&snapshot.Cluster{})
	h := admin.New(admin.Config{
		Read: status.New(status.Config{Source: board}), Source: board, Changer: asked, Guard: &admin.Guard{},
		Logger: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}),
	})
	for _, test := range []struct {
		body   string
		result api.ChangeResult
		err    error
		want   string // in the only line; empty: there is none
	}{
		{body: `{}`, result: api.ChangeResult{Changed: []string{"a"}}, want: `"changed"=1 "refused"=0`},
		{body: `{}`, result: api.ChangeResult{Refused: []api.Refusal{{Name: "a"}}}, want: `"changed"=0 "refused"=1`},
		{body: `{}`, result: api.ChangeResult{Unchanged: []string{"a"}}},
		{body: `{}`, err: elect.ErrUnavailable, want: `"error"="` + elect.ErrUnavailable.Error() + `"`},
		{body: `{"dryRun":true}`, result: api.ChangeResult{Changed: []string{"a"}}},
	} {
		lines, asked.result, asked.err = nil, test.result, test.err
		r := httptest.NewRequestWithContext(
			t.Context(), http.MethodPost, "/api/v1/instances/a/cordon", strings.NewReader(test.body),
		)
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(httptest.NewRecorder(), r)
		logged := strings.Join(lines, "\n")
		if test.want == "" && logged != "" || !strings.Contains(logged, test.want) || len(lines) > 1 {
			t.Errorf("%+v: logged %q, want %s", test, lines, test.want)
		}
	}
}

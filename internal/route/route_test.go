package route

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

// app is an owner's address, which answers as handle does.
func app(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// owning is a cluster in which the instance b owns g/a with this token, and is reached there.
func owning(token int64, address string) *snapshot.Cluster {
	return &snapshot.Cluster{
		Tasks: snapshot.Listed([]api.Task{{
			Key: "g/a", Group: "g", Name: "a",
			Owner: api.Owner{Instance: "b", Session: "s-b", FencingToken: token},
		}}),
		Instances: []api.Instance{{Name: "b", Session: "s-b", State: api.Live, AppAddress: address}},
	}
}

func boardOf(s *snapshot.Cluster) *snapshot.Board {
	var b snapshot.Board
	if s != nil {
		b.Publish(s)
	}
	return &b
}

// answer is what came back.
type answer struct {
	*httptest.ResponseRecorder

	problem api.Error
}

func send(t *testing.T, h http.Handler, r *http.Request) answer {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	a := answer{ResponseRecorder: w}
	_ = json.Unmarshal(w.Body.Bytes(), &a.problem) // most answers of owners are no problems
	return a
}

func post(path, body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintln(w, r.Method, r.RequestURI, string(body))
	for _, name := range []string{
		api.KeyHeader, api.TokenHeader, hopsHeader, "Shardctl-Proof", "Shardctl_Key", "Authorization",
		"X-Forwarded-Host", "Upgrade",
	} {
		_, _ = fmt.Fprintf(w, "%s=%s\n", name, r.Header.Get(name))
	}
}

func TestRequestsAreForwarded(t *testing.T) {
	var codes []int
	h := New(Config{
		Source: boardOf(owning(7, app(t, echo))), Known: func(token string) bool { return token == "of-shardctl" },
		Done: func(code int, _ time.Duration) { codes = append(codes, code) },
	})
	r := post("/route/g/a/x%2Fy//z/?q=1;2&b=100%&a", "hello")
	for name, value := range map[string]string{
		api.KeyHeader: "g/other", api.TokenHeader: "99", "Shardctl-Proof": "p", "Shardctl_Key": "g/other",
		"Authorization": "Bearer of-shardctl", "Connection": "Upgrade", "Upgrade": "websocket",
	} {
		r.Header.Set(name, value)
	}
	got := send(t, h, r)
	want := "POST /x%2Fy//z/?q=1;2&b=100%&a hello\nShardctl-Key=g/a\nShardctl-Fencing-Token=7\nShardctl-Hops=1\n" +
		"Shardctl-Proof=\nShardctl_Key=\nAuthorization=\nX-Forwarded-Host=example.com\nUpgrade=\n"
	if got.Code != http.StatusOK || got.Body.String() != want {
		t.Errorf("%d %s, want %s", got.Code, got.Body, want)
	}
	if csp := got.Header().Get("Content-Security-Policy"); csp != "sandbox" {
		t.Errorf("what owners answer shares the origin of the page: %q", csp)
	}
	r = post("/route/g/a", "")
	r.Header.Set("Authorization", "bearer  of-shardctl")
	if got := send(t, h, r); strings.Contains(got.Body.String(), "of-shardctl") {
		t.Errorf("a token of shardctl reached the owner: %s", got.Body)
	}
	r = post("/route/g/a", "")
	r.Header.Set("Authorization", "Bearer of-the-app")
	if got := send(t, h, r); !strings.HasPrefix(got.Body.String(), "POST / ") ||
		!strings.Contains(got.Body.String(), "of-the-app") {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	send(t, h, post("/route/g/none/", ""))
	if fmt.Sprint(codes) != "[200 200 200 404]" {
		t.Errorf("noted %v", codes)
	}
}

func TestWhatIsNotForwarded(t *testing.T) {
	var calls atomic.Int32
	address := app(t, func(_ http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
	})
	changed := func(change func(*snapshot.Cluster)) *snapshot.Cluster {
		s := owning(7, address)
		change(s)
		return s
	}
	ownerless := changed(func(s *snapshot.Cluster) { s.Tasks.All()[0].Owner = api.Owner{} })
	large := func() *http.Request { return post("/route/g/a/", strings.Repeat("x", maxBody+1)) }
	good := func() *http.Request { return post("/route/g/a/", "") }
	with := func(r *http.Request, name, value string) *http.Request {
		r.Header.Set(name, value)
		return r
	}
	for name, test := range map[string]struct {
		of     *snapshot.Cluster
		r      *http.Request
		code   int
		reason string
	}{
		"nothing known":    {nil, good(), 503, api.ReasonNotReady},
		"not declared":     {owning(7, address), post("/route/g/none/", ""), 404, api.ReasonNotFound},
		"no name":          {owning(7, address), post("/route/g/", ""), 404, api.ReasonNotFound},
		"no owner":         {ownerless, good(), 503, api.ReasonNotOwned},
		"no address":       {owning(7, ""), good(), 503, api.ReasonNoAddress},
		"a broken address": {owning(7, ":9000"), good(), 503, api.ReasonNoAddress},
		"too many hops":    {owning(7, address), with(good(), hopsHeader, "3"), 508, api.ReasonTooManyHops},
		"malformed hops":   {owning(7, address), with(good(), hopsHeader, "-1"), 508, api.ReasonTooManyHops},
		"another origin":   {owning(7, address), with(good(), "Origin", "http://evil"), 403, api.ReasonForbidden},
		"a large body":     {owning(7, address), large(), 413, api.ReasonTooLarge},
		"a long stream": {
			owning(7, address),
			httptest.NewRequest(http.MethodPost, "/route/g/a/", io.LimitReader(zeros{}, maxBody+1)), 413, api.ReasonTooLarge,
		},
	} {
		t.Run(name, func(t *testing.T) {
			calls.Store(0)
			got := send(t, New(Config{Source: boardOf(test.of)}), test.r)
			if got.Code != test.code || got.problem.Reason != test.reason {
				t.Errorf("%d %s, want %d %s", got.Code, got.Body, test.code, test.reason)
			}
			if retry := got.Header().Get("Retry-After"); (test.code == 503) != (retry == "1") {
				t.Errorf("Retry-After %q", retry)
			}
			if calls.Load() > 0 && name != "a long stream" {
				t.Error("the owner was asked")
			}
		})
	}
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// After a 421, and where there is no connection, the request goes to the next owner: once, and with its body.
func TestForwardingLooksAgainOnce(t *testing.T) {
	var board *snapshot.Board
	var calls atomic.Int32
	next := ""
	moving := func(w http.ResponseWriter, _ *http.Request) {
		board.Publish(owning(8+int64(calls.Add(1)), next))
		w.WriteHeader(http.StatusMisdirectedRequest)
	}
	long := strings.Repeat("x", maxKept+1)
	for name, test := range map[string]struct {
		first, second http.HandlerFunc
		body          string
		code          int
		calls         int32
	}{
		"a key that moved":      {moving, echo, "hello", 200, 1},
		"one that moves on":     {moving, moving, "hello", 421, 2},
		"a body that is long":   {moving, echo, long, 421, 1},
		"an owner that is gone": {nil, echo, "hello", 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			calls.Store(0)
			next = app(t, test.second)
			first := "127.0.0.1:1" // nothing listens there
			board = boardOf(nil)
			if test.first != nil {
				first = app(t, test.first)
			}
			board.Publish(owning(7, first))
			if test.first == nil {
				time.AfterFunc(10*time.Millisecond, func() { board.Publish(owning(8, next)) })
			}
			got := send(t, New(Config{Source: board}), post("/route/g/a/", test.body))
			if got.Code != test.code || calls.Load() != test.calls {
				t.Errorf("%d %.200s after %d refusals", got.Code, got.Body, calls.Load())
			}
			if got.Code == http.StatusOK && !strings.HasPrefix(got.Body.String(), "POST / hello\n") {
				t.Errorf("the second owner got %s", got.Body)
			}
		})
	}
}

// What may have been carried out is not sent again, and the answer says so.
func TestBrokenConnectionsAreNotRepeated(t *testing.T) {
	var calls atomic.Int32
	address := app(t, func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler)
	})
	got := send(t, New(Config{Source: boardOf(owning(7, address))}), post("/route/g/a/", "hello"))
	if got.Code != http.StatusBadGateway || got.problem.Reason != api.ReasonOwnerFailed || calls.Load() != 1 {
		t.Errorf("%d %s after %d calls", got.Code, got.Body, calls.Load())
	}
	late := errorOf(context.DeadlineExceeded)
	if late.Status != http.StatusGatewayTimeout || late.Reason != api.ReasonOwnerTimeout {
		t.Errorf("%+v", late)
	}
	got = send(t, New(Config{Source: boardOf(owning(7, "127.0.0.1:1"))}), post("/route/g/a/", "hello"))
	if got.Code != http.StatusServiceUnavailable || got.problem.Reason != api.ReasonOwnerUnreachable {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// Owners that send requests back to a replica end in an error, and in no loop.
func TestLoopsEnd(t *testing.T) {
	var calls atomic.Int32
	board := boardOf(nil)
	h := New(Config{Source: board})
	board.Publish(owning(7, app(t, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		r.URL.Path = "/route/g/a" + r.URL.Path
		h.ServeHTTP(w, r)
	})))
	got := send(t, h, post("/route/g/a/", "hello"))
	if got.Code != http.StatusLoopDetected || got.problem.Reason != api.ReasonTooManyHops || calls.Load() != maxHops {
		t.Errorf("%d %s after %d calls", got.Code, got.Body, calls.Load())
	}
}

func TestOverLeavesTheRest(t *testing.T) {
	h := Over(http.NotFoundHandler(), New(Config{Source: boardOf(owning(7, app(t, echo)))}))
	for path, want := range map[string]int{"/route/g/a/": 200, "/route": 404, "/": 404} {
		if got := send(t, h, post(path, "")); got.Code != want {
			t.Errorf("%s: %d, want %d", path, got.Code, want)
		}
	}
}

package idempotencyhttp_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fencehttp"
	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencyhttp"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite" // brings the driver of SQLite
)

// site is a handler behind the middleware.
type site struct {
	t       *testing.T
	handler http.Handler
	wrap    func(http.Handler) http.Handler
	inner   http.Handler
	calls   int
	status  int
	answer  func(http.ResponseWriter, *http.Request)
}

func open(t *testing.T, cfg idempotency.Config, o idempotencyhttp.Options) *site {
	t.Helper()
	if cfg.Transact == nil {
		cfg.Records = idempotency.Memory()
	}
	guard, err := idempotency.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	o.Guard, o.OneCaller = guard, o.Caller == nil
	wrap, err := idempotencyhttp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, wrap: wrap, status: http.StatusCreated}
	s.inner = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls++
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Location", "/orders/1")
		w.Header().Set("Date", "long ago")
		if s.answer != nil {
			s.answer(w, r)
		}
		w.WriteHeader(s.status)
		_, _ = w.Write(append([]byte("made of "), body...))
	})
	s.handler = wrap(s.inner)
	return s
}

// send sends a request; no key: none.
func (s *site) send(method, path, body string, key ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	for _, one := range key {
		r.Header.Add("Idempotency-Key", one)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// wantProblem checks problem details.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int, text string) {
	t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("status %d, body %q: %v", w.Code, w.Body, err)
	}
	if w.Code != status || p.Status != status || w.Header().Get("Content-Type") != "application/problem+json" ||
		!strings.Contains(p.Title, text) || p.Detail == "" || p.Type != "https://docs.example/keys" ||
		w.Header().Get("Link") != `<https://docs.example/keys>; rel="describedby"` {
		t.Errorf("status %d, header %v, problem %+v, want %d with %q", w.Code, w.Header(), p, status, text)
	}
}

const docs = "https://docs.example/keys"

func TestAReplyIsKept(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{})
	for i := range 3 {
		w := s.send("POST", "/orders?a=1", "tea", `"k"`)
		replayed := w.Header().Get("Idempotent-Replayed")
		if w.Code != 201 || w.Body.String() != "made of tea" || w.Header().Get("Location") != "/orders/1" ||
			(replayed == "true") != (i > 0) || s.calls != 1 || w.Header().Get("Date") != "" {
			t.Fatalf("time %d: status %d, %q, header %v, %d calls", i, w.Code, w.Body, w.Header(), s.calls)
		}
	}
}

// A client that gives up sends again: its first call has gone on, and its reply is replayed.
func TestAClientThatGivesUp(t *testing.T) {
	s := open(t, idempotency.Config{Wait: true}, idempotencyhttp.Options{})
	began, goOn := make(chan struct{}), make(chan struct{})
	s.answer = func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-goOn
		if err := r.Context().Err(); err != nil {
			t.Errorf("the handler's context ended with the client: %v", err)
		}
	}
	ctx, giveUp := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders", strings.NewReader("tea"))
		r.Header.Set("Idempotency-Key", `"k"`)
		s.handler.ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-began
	giveUp()
	close(goOn)
	<-over
	if w := s.send("POST", "/orders", "tea", `"k"`); w.Code != 201 || w.Header().Get("Idempotent-Replayed") != "true" ||
		s.calls != 1 {
		t.Errorf("the repetition: status %d, header %v, %d calls", w.Code, w.Header(), s.calls)
	}
}

// One that gives up before its handler is called leaves nothing behind.
func TestAClientThatGaveUpBefore(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{})
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders", strings.NewReader("tea"))
	r.Header.Set("Idempotency-Key", `"k"`)
	s.handler.ServeHTTP(httptest.NewRecorder(), r)
	if w := s.send("POST", "/orders", "tea", `"k"`); w.Code != 201 || s.calls != 1 {
		t.Errorf("the repetition: status %d, %d calls", w.Code, s.calls)
	}
}

// What a fence inside refuses is not kept: the next owner sends the same request with its own token.
func TestARefusalOfAFenceIsNotKept(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{})
	var fences fence.Memory
	s.handler = s.wrap(fencehttp.Handler(&fences, s.inner))
	send := func(token, key string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("message"))
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Shardctl-Key", "g/n")
		r.Header.Set("Shardctl-Fencing-Token", token)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w.Code
	}
	for _, one := range []struct {
		token, key string
		want       int
	}{{"8", `"41"`, 201}, {"7", `"42"`, 409}, {"8", `"42"`, 201}} {
		if got := send(one.token, one.key); got != one.want {
			t.Errorf("token %s, key %s: %d, want %d", one.token, one.key, got, one.want)
		}
	}
	if s.calls != 2 {
		t.Errorf("%d calls, want one for each message", s.calls)
	}
}

func TestWhatPasses(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{})
	for range 2 {
		s.send("POST", "/", "")
		s.send("PUT", "/", "", `"k"`)
		s.send("GET", "/", "", `"k"`)
	}
	if s.calls != 6 {
		t.Errorf("%d calls, want 6", s.calls)
	}
}

func TestARequestInProgress(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{Docs: docs})
	s.answer = func(http.ResponseWriter, *http.Request) {
		s.answer = nil
		w := s.send("POST", "/", "tea", `"k"`) //nolint:contextcheck // a request of its own
		wantProblem(t, w, 409, "outstanding")
		if w.Header().Get("Retry-After") != "1" {
			t.Errorf("header %v, want Retry-After", w.Header())
		}
	}
	s.send("POST", "/", "tea", `"k"`)
	if s.calls != 1 {
		t.Errorf("%d calls, want one", s.calls)
	}
}

func TestFailures(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{Docs: docs})
	s.status = 500
	for range 2 { // it may have had an effect, so it is kept
		if w := s.send("POST", "/", "tea", `"k"`); w.Code != 500 || s.calls != 1 {
			t.Fatalf("status %d, %d calls, want 500 kept", w.Code, s.calls)
		}
	}
	s.status, s.answer = 429, func(_ http.ResponseWriter, r *http.Request) { idempotencyhttp.NoEffect(r) }
	for i := range 2 {
		if w := s.send("POST", "/", "tea", `"l"`); w.Code != 429 || s.calls != i+2 {
			t.Fatalf("status %d, %d calls, want the handler's refusal each time", w.Code, s.calls)
		}
	}
	s.answer = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	func() {
		defer func() {
			if got := recover(); got != http.ErrAbortHandler { //nolint:errorlint // it is that very value
				t.Errorf("recovered %v, want the handler's panic", got)
			}
		}()
		s.send("POST", "/", "tea", `"m"`)
	}()
	wantProblem(t, s.send("POST", "/", "tea", `"m"`), 409, "did not end")
}

func TestSizes(t *testing.T) {
	s := open(t, idempotency.Config{}, idempotencyhttp.Options{Docs: docs, MaxBody: 3})
	wantProblem(t, s.send("POST", "/", "four", `"k"`), 413, "too large")
	if w := s.send("POST", "/", "tea", `"k"`); w.Code != 201 {
		t.Errorf("status %d", w.Code)
	}
	large := strings.Repeat("x", idempotency.MaxReply)
	s.answer = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large) }
	if w := s.send("POST", "/", "tea", `"l"`); w.Code != 200 || w.Body.Len() < len(large) {
		t.Errorf("status %d, %d bytes, want the handler's own reply", w.Code, w.Body.Len())
	}
	wantProblem(t, s.send("POST", "/", "tea", `"l"`), 409, "too large to be kept")
}

func TestADatabaseThatDoesNotAnswer(t *testing.T) {
	down := func(context.Context, func(context.Context, idempotency.Records) error) error {
		return errors.New("down")
	}
	s := open(t, idempotency.Config{Transact: down}, idempotencyhttp.Options{Docs: docs})
	w := s.send("POST", "/", "tea", `"k"`)
	wantProblem(t, w, 503, "could not be looked up")
	if s.calls != 0 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d calls, header %v", s.calls, w.Header())
	}
}

// In a transaction a failure of the handler leaves nothing, and a repetition is worked on.
func TestInTransactions(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "work.db")+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range append(idempotency.SQLite.Schema(), "CREATE TABLE orders (id TEXT)") {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	cfg := idempotency.Config{Transact: idempotency.SQLTransactions{DB: db}.Transact}
	s := open(t, cfg, idempotencyhttp.Options{Docs: docs})
	s.answer = func(_ http.ResponseWriter, r *http.Request) {
		if _, err := idempotency.TxFrom(r.Context()).ExecContext(r.Context(),
			"INSERT INTO orders VALUES ('a')"); err != nil {
			t.Error(err)
		}
	}
	orders := func(want int) {
		t.Helper()
		var n int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM orders").Scan(&n); err != nil || n != want {
			t.Fatalf("%d orders, %v, want %d", n, err, want)
		}
	}
	s.status = 500
	if w := s.send("POST", "/", "tea", `"k"`); w.Code != 500 {
		t.Fatalf("status %d", w.Code)
	}
	orders(0)
	s.status = 201
	for range 2 {
		if w := s.send("POST", "/", "tea", `"k"`); w.Code != 201 {
			t.Fatalf("status %d", w.Code)
		}
		orders(1)
	}
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", idempotency.MaxReply))
	}
	wantProblem(t, s.send("POST", "/", "tea", `"l"`), 500, "too large to be kept")
}

func TestBadOptions(t *testing.T) {
	guard, caller := &idempotency.Guard{}, func(*http.Request) string { return "" }
	for _, tt := range []struct {
		o    idempotencyhttp.Options
		text string
	}{
		{idempotencyhttp.Options{OneCaller: true}, "Guard is nil"},
		{idempotencyhttp.Options{Guard: guard, OneCaller: true, MaxBody: -1}, "MaxBody is -1"},
		{idempotencyhttp.Options{Guard: guard}, "Caller is set: false, OneCaller is false"},
		{
			idempotencyhttp.Options{Guard: guard, Caller: caller, OneCaller: true},
			"Caller is set: true, OneCaller is true",
		},
	} {
		_, err := idempotencyhttp.New(tt.o)
		if !errors.Is(err, idempotency.ErrInvalid) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%+v: %v, want ErrInvalid with %q", tt.o, err, tt.text)
		}
	}
}

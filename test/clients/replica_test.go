package clients_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/application"
	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/pkg/elect"
)

// hard is how long the lease lasts when it is not renewed.
var hard = flag.Duration("clients.hard", 4*time.Second, "how long a lease lasts; longer where processes get little time")

const secret = "secret-of-this-test"

// hub is one life of a replica.
type hub struct {
	t *testing.T
	*application.Hub

	mu      sync.Mutex
	session string
	renewed time.Time // the lease lasts from then on
	held    bool      // the lease is renewed all the time
	lasts   time.Duration
	load    atomic.Value // a float64: the last of any key
}

func newHub(t *testing.T, session string) *hub {
	t.Helper()
	h := &hub{t: t, session: session, held: true, lasts: *hard}
	h.Hub = application.NewHub(application.Config{
		Clock: elect.SystemClock(), Session: h.lease, MaxWait: *hard / 10,
		Changed: func() {}, Load: func(_ elect.Key, load float64) { h.load.Store(load) },
	})
	t.Cleanup(h.Close)
	return h
}

func (h *hub) lease() (string, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held {
		h.renewed = time.Now()
	}
	return h.session, time.Until(h.renewed.Add(h.lasts))
}

// renews says whether the lease is renewed from now on.
func (h *hub) renews(held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = held
}

// longer has the lease last for longer, where nothing waits for its end and much has to be done.
func (h *hub) longer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lasts = 15 * *hard
}

// key is one that was given to the application.
type key struct {
	t     *testing.T
	stop  context.CancelCauseFunc
	ended chan struct{}
}

func (h *hub) give(name string, token int64, value elect.Checkpoint) *key {
	ctx, stop := context.WithCancelCause(context.Background())
	k := &key{h.t, stop, make(chan struct{})}
	go func() {
		_ = h.Run(ctx, application.Assignment{
			Key: elect.Key(name), Token: token, Grace: time.Second, Value: value,
		}, func() {})
		close(k.ended)
	}()
	return k
}

// take has the key stopped and waits until it is free.
func (k *key) take() {
	k.t.Helper()
	k.stop(elect.ErrReleased)
	k.free()
}

func (k *key) free() {
	k.t.Helper()
	select {
	case <-k.ended:
	case <-time.After(wait):
		k.t.Fatal("the key is not given back")
	}
}

// fault is what becomes of one call.
type fault int

const (
	none      fault = iota
	lost            // it does not arrive
	unheard         // it arrives, and its reply is lost
	twice           // it arrives twice
	afterNext       // it arrives after the call that follows it
	repeated        // it does not arrive, and gets the reply that was kept
	saidTwice       // its reply stands twice on the connection
	garbled         // it does not arrive, and gets an answer that is no reply
)

// network is the way from an application to its replica.
type network struct {
	mu    sync.Mutex
	hub   *hub
	fault func(application.Request) fault // nil: none
	delay time.Duration                   // of each reply
	keep  string                          // the next reply that has this is kept; empty: none
	kept  []byte
	late  []byte // a call that is to arrive after the next

	answers int
	bytes   atomic.Int64 // of all calls and replies
}

// set changes the network between two calls.
func (n *network) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// newNetwork has an address for applications and a hub behind it.
func newNetwork(t *testing.T) (*network, string) {
	t.Helper()
	n := &network{hub: newHub(t, "one")}
	socket := filepath.Join(t.TempDir(), "app.sock")
	n.listen(t, "unix", socket)
	return n, "unix:" + socket
}

// listen has an address more, and returns it.
func (n *network) listen(t *testing.T, kind, address string) string {
	t.Helper()
	listener, err := net.Listen(kind, address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: n}
	go func() { _ = server.Serve(counter{listener, &n.bytes}) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

// server is the replica of now.
func (n *network) server() http.Handler {
	n.mu.Lock()
	defer n.mu.Unlock()
	token := func() (string, error) { return secret, nil }
	return (&application.Server{Hub: n.hub.Hub, Token: token, Owner: func(key elect.Key) (cluster.Owner, bool) {
		return cluster.Owner{Instance: "größe", Address: "127.0.0.1:9000", Token: 7},
			key != "work/none"
	}}).Handler()
}

func (n *network) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	does, delay, late := none, time.Duration(0), []byte(nil)
	if req.URL.Path == "/v1/sync" {
		does, delay, late = n.choose(body)
	}
	var reply *httptest.ResponseRecorder
	switch does {
	case lost, afterNext:
		panic(http.ErrAbortHandler)
	case repeated:
		reply = httptest.NewRecorder()
		_, _ = reply.Write(n.kept)
	case garbled:
		reply = httptest.NewRecorder()
		_, _ = reply.WriteString("{}")
	case twice:
		go n.deliver(req, body)
		reply = n.deliver(req, body)
	default:
		reply = n.deliver(req, body)
	}
	if late != nil {
		n.deliver(req, late)
	}
	if does == unheard {
		panic(http.ErrAbortHandler)
	}
	n.set(func() {
		if n.keep != "" && bytes.Contains(reply.Body.Bytes(), []byte(n.keep)) {
			n.keep, n.kept = "", reply.Body.Bytes()
		}
	})
	time.Sleep(delay)
	answer(w, reply, does == saidTwice)
	n.set(func() { n.answers++ })
}

// until waits for what is to come true, or fails with what is wrong until then.
func until(t *testing.T, wrong string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(wait); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal(wrong)
		}
	}
}

// notReady waits until the application takes no more keys.
func (n *network) notReady(t *testing.T) {
	t.Helper()
	until(t, "it still takes keys", func() bool { return !n.hub.Capacity() })
}

// calls waits for so many answers.
func (n *network) calls(t *testing.T, answers int) {
	t.Helper()
	seen := n.answered()
	until(t, "it does not call", func() bool { return n.answered() >= seen+answers })
}

// answered is how many requests have been answered.
func (n *network) answered() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.answers
}

// choose says what becomes of a call, how long its reply takes, and what arrives after it.
func (n *network) choose(body []byte) (fault, time.Duration, []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	does := none
	if n.fault != nil {
		var call application.Request
		_ = json.Unmarshal(body, &call)
		does = n.fault(call)
	}
	late := n.late
	n.late = nil
	if does == afterNext {
		n.late = body
	}
	return does, n.delay, late
}

func (n *network) deliver(req *http.Request, body []byte) *httptest.ResponseRecorder {
	r := req.Clone(req.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	reply := httptest.NewRecorder()
	n.server().ServeHTTP(reply, r)
	return reply
}

func answer(w http.ResponseWriter, reply *httptest.ResponseRecorder, twice bool) {
	if !twice {
		maps.Copy(w.Header(), reply.Header())
		w.WriteHeader(reply.Code)
		_, _ = w.Write(reply.Body.Bytes())
		return
	}
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	text := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		reply.Code, http.StatusText(reply.Code), reply.Body.Len(), reply.Body)
	_, _ = io.WriteString(conn, text+text)
	_ = conn.Close()
}

// store is a value in memory.
type store struct {
	mu    sync.Mutex
	value []byte
	err   error
}

func (s *store) Value(context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, nil
}

func (s *store) SetValue(_ context.Context, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.value = value
	}
	return s.err
}

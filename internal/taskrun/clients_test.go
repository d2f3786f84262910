package taskrun

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// patience is how long a test waits for what has to happen.
const patience = 20 * time.Second

// A router that forgets its connections answers nothing, not even that: each request would time out on the dead
// connection for minutes.
func TestConnectionThatDiedSilentlyIsGivenUp(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the request came by %s", r.Proto)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	router := newRouter(t, server.Listener.Addr().String())
	c := &Clients{ping: 50 * time.Millisecond, pong: 50 * time.Millisecond}
	defer c.Close()
	call := func(limit time.Duration) error {
		client, err := c.Client(caFile)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+router.address, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	if err := call(patience); err != nil {
		t.Fatal(err)
	}
	router.forget()
	within(t, "a request over another connection", func() bool { return call(time.Second) == nil })
	if n := router.connections.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// router passes connections on, until it forgets those that are there.
type router struct {
	address     string
	connections atomic.Int32
	epoch       atomic.Int32
}

func newRouter(t *testing.T, to string) *router {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	r := &router{address: listener.Addr().String()}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			r.connections.Add(1)
			beyond, err := new(net.Dialer).DialContext(context.WithoutCancel(t.Context()), "tcp", to)
			if err != nil {
				_ = near.Close()
				return
			}
			epoch := r.epoch.Load()
			go r.pass(near, beyond, epoch)
			go r.pass(beyond, near, epoch)
		}
	}()
	return r
}

func (r *router) forget() { r.epoch.Add(1) }

// pass swallows what comes once the connection is forgotten, and closes nothing before the sender does.
func (r *router) pass(from, to net.Conn, epoch int32) {
	defer func() { _ = to.Close() }()
	chunk := make([]byte, 4<<10)
	for {
		n, err := from.Read(chunk)
		if err != nil {
			return
		}
		if r.epoch.Load() == epoch {
			if _, err := to.Write(chunk[:n]); err != nil {
				return
			}
		}
	}
}

// within polls until ok says yes.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

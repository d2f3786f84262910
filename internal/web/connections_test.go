package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
)

// from is a connection that comes from an address.
type from struct {
	net.Conn
	address net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.address }

// doors is a listener to which a test connects from any address.
type doors struct {
	t     *testing.T
	come  chan net.Conn
	ended chan struct{}
}

func (d *doors) Accept() (net.Conn, error) {
	select {
	case c := <-d.come:
		return c, nil
	case <-d.ended:
		return nil, net.ErrClosed
	}
}

func (d *doors) Close() error   { close(d.ended); return nil }
func (d *doors) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// visitor is one side of a connection.
type visitor struct {
	net.Conn
	t    *testing.T
	read *bufio.Reader
}

func (d *doors) connect(address string) *visitor {
	d.t.Helper()
	here, there := net.Pipe()
	d.come <- from{there, &net.TCPAddr{IP: net.ParseIP(address), Port: 1}}
	synctest.Wait()
	return &visitor{here, d.t, bufio.NewReader(here)}
}

// ask sends a request over the connection, and says whether it was answered.
func (v *visitor) ask(path string) bool {
	v.t.Helper()
	if _, err := fmt.Fprintf(v, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		return false
	}
	answer, err := http.ReadResponse(v.read, nil) //nolint:bodyclose // it ends with the connection
	if err != nil {
		return false
	}
	if path == "/hold" { // its head alone
		return true
	}
	_, err = io.Copy(io.Discard, answer.Body)
	synctest.Wait()
	return err == nil && answer.StatusCode == http.StatusOK
}

// closed says whether the server has closed the connection.
func (v *visitor) closed() bool {
	synctest.Wait()
	_ = v.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer func() { _ = v.SetReadDeadline(time.Time{}) }()
	_, err := v.read.Peek(1)
	return err != nil && !isTimeout(err)
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // of a pipe
	return ok && timeout.Timeout()
}

// serving runs a server with these limits. /hold is answered until the server ends.
func serving(t *testing.T, limit Connections, body func(d *doors)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &doors{t, make(chan net.Conn), make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/hold" {
				return
			}
			ctl := http.NewResponseController(w)
			if err := ctl.Flush(); err != nil {
				t.Error(err)
			}
			_ = ctl.SetWriteDeadline(time.Time{})
			_ = ctl.SetReadDeadline(time.Time{})
			select {
			case <-ctx.Done():
			case <-r.Context().Done():
			}
		})
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, d, handler, limit, 0, logr.Discard()) }()
		body(d)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// However many connections strangers keep, who comes next is served, and nobody's request is cut off.
func TestIdleConnectionsGiveWay(t *testing.T) {
	serving(t, Connections{Most: 6, MostOfOne: 3}, func(d *doors) {
		held := d.connect("192.0.2.1")
		if !held.ask("/hold") {
			t.Fatal("the first is not answered")
		}
		var idle []*visitor
		for i := range 20 {
			v := d.connect("192.0.2.1")
			if i%2 == 0 && !v.ask("/") { // every other one sends nothing at all
				t.Errorf("connection %d of one client is not answered", i)
			}
			idle = append(idle, v)
			time.Sleep(time.Millisecond)
		}
		for i, v := range idle {
			if got, want := v.closed(), i < len(idle)-2; got != want {
				t.Errorf("connection %d of one client is closed: %v", i, got)
			}
		}
		for i := range 50 {
			address := fmt.Sprintf("198.51.100.%d", i)
			if !d.connect(address).ask("/") {
				t.Errorf("another client, %s, is not answered", address)
			}
		}
		for _, v := range idle {
			if !v.closed() {
				t.Error("one that has been idle for longer stays")
			}
		}
		if held.closed() {
			t.Error("a request was cut off")
		}
	})
}

// While every connection is busy, another is closed at once. One that becomes idle makes room.
func TestBusyConnectionsStay(t *testing.T) {
	serving(t, Connections{Most: 4, MostOfOne: 2}, func(d *doors) {
		var busy []*visitor
		for i := range 4 {
			v := d.connect(fmt.Sprintf("192.0.2.%d", i/2))
			if !v.ask("/hold") {
				t.Fatal("not answered")
			}
			busy = append(busy, v)
		}
		for _, address := range []string{"192.0.2.0", "192.0.2.9", "127.0.0.1"} {
			if v := d.connect(address); v.ask("/") || !v.closed() {
				t.Errorf("one more from %s is answered", address)
			}
		}
		_ = busy[0].Close()
		busy = busy[1:]
		synctest.Wait()
		time.Sleep(time.Second)
		if !d.connect("192.0.2.0").ask("/") {
			t.Error("there is room, and one that comes is not answered")
		}
		for _, v := range busy {
			if v.closed() {
				t.Error("a request was cut off")
			}
		}
	})
}

// What comes over loopback is limited by what there may be in all alone.
func TestConnectionsOverLoopback(t *testing.T) {
	serving(t, Connections{Most: 5, MostOfOne: 1}, func(d *doors) {
		for range 5 {
			if !d.connect("127.0.0.1").ask("/hold") {
				t.Error("one over loopback is not answered")
			}
		}
		if d.connect("::1").ask("/") {
			t.Error("there are more than there may be")
		}
	})
}

// Whatever happens to connections, they are counted as long as they are open, and no longer.
func TestConnectionsAreCounted(t *testing.T) {
	cs := newConnections(Connections{Most: 3, MostOfOne: 2}, logr.Discard())
	conn := func(address string) net.Conn {
		here, there := net.Pipe()
		t.Cleanup(func() { _ = here.Close() })
		return from{there, &net.TCPAddr{IP: net.ParseIP(address), Port: 1}}
	}
	a, b, c, d := conn("192.0.2.1"), conn("192.0.2.1"), conn("192.0.2.1"), conn("2001:db8::1")
	cs.changed(a, http.StateNew)
	cs.changed(b, http.StateNew)
	cs.changed(a, http.StateActive)
	cs.changed(c, http.StateNew) // b gives way
	cs.changed(b, http.StateActive)
	cs.changed(b, http.StateIdle)
	cs.changed(b, http.StateClosed)
	cs.changed(d, http.StateNew)
	if len(cs.open) != 3 || cs.open[b] != nil || cs.idle.Len() != 2 || len(cs.of) != 2 {
		t.Errorf("%d are open, %d idle, of %d clients", len(cs.open), cs.idle.Len(), len(cs.of))
	}
	cs.changed(a, http.StateIdle)
	for _, c := range []net.Conn{a, c, d} {
		cs.changed(c, http.StateClosed)
		cs.changed(c, http.StateClosed)
	}
	if len(cs.open)+len(cs.of)+cs.idle.Len() != 0 {
		t.Errorf("%d are open, %d idle, of %d clients", len(cs.open), cs.idle.Len(), len(cs.of))
	}
}

// wrapped is as a connection of TLS: to close it is to send something.
type wrapped struct {
	net.Conn
	below  net.Conn
	closed *bool
}

func (w wrapped) NetConn() net.Conn { return w.below }
func (w wrapped) Close() error      { *w.closed = true; return nil }

func TestClosingWaitsForNoReader(t *testing.T) {
	here, there := net.Pipe()
	said := false
	closeNow(wrapped{there, there, &said})
	if _, err := here.Read(make([]byte, 1)); err != io.EOF || said { //nolint:errorlint // of a pipe
		t.Errorf("%v, %v", err, said)
	}
}

// The limits leave files for tasks and the store, however few a process may open.
func TestConnectionsLeaveFiles(t *testing.T) {
	for _, c := range []struct{ files, server, ofOne, admin, application int }{
		{1 << 20, 2560, 640, 512, 1024},
		{1024, 512, 128, 128, 256},
		{256, 128, 32, 32, 64},
		{0, 2560, 640, 512, 1024},
	} {
		server := within(Connections{2560, 640}, c.files/2)
		admin, application := within(Connections{512, 128}, c.files/8), within(Connections{1024, 1024}, c.files/4)
		if server.Most != c.server || server.MostOfOne != c.ofOne || admin.Most != c.admin ||
			application != (Connections{c.application, c.application}) {
			t.Errorf("of %d files: %+v %+v %+v", c.files, server, admin, application)
		}
		if all := server.Most + admin.Most + application.Most; c.files > 0 && c.files < 1<<20 && all > c.files*7/8 {
			t.Errorf("of %d files %d are connections", c.files, all)
		}
	}
	if c := ServerConnections(); c.Most < 1 || c.MostOfOne < 1 || c.MostOfOne > c.Most {
		t.Errorf("%+v", c)
	}
}

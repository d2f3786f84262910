package web

import (
	order "container/list"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
)

// Connections are how many a listener has open at once, in all and of one client: an address, or a network of IPv6 of
// 64 bits. Those over loopback, and over sockets of the machine, count among all alone. Beyond that the one that has
// been idle the longest gives way, of the same client where that one has too many. Where none is idle, the new one is
// closed. A connection whose first request has not arrived counts as idle.
type Connections struct{ Most, MostOfOne int }

// ServerConnections are those of server.listen: the watches, the requests, and idle ones of readers that come again.
func ServerConnections() Connections { return within(Connections{2560, 640}, openFiles()/2) }

// AdminConnections are those of admin.listen.
func AdminConnections() Connections { return within(Connections{512, 128}, openFiles()/8) }

// ApplicationConnections are those of app.listen. An application is one client.
func ApplicationConnections() Connections { return within(Connections{1024, 1024}, openFiles()/4) }

// within lowers the limits to a share of the files that this process may have open; 0: that is not known. An eighth is
// left for the store, tasks and all else.
func within(c Connections, share int) Connections {
	if share > 0 && c.Most > share {
		c.MostOfOne = max(1, c.MostOfOne*share/c.Most)
		c.Most = share
	}
	return c
}

// openFiles is how many files this process may have open; 0: that is not known.
func openFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	const most = 1 << 20 // as good as none
	return int(min(limit.Cur, most))
}

// connections follows those of one listener, by what [http.Server] reports of their states. Use newConnections.
type connections struct {
	limit Connections
	log   logr.Logger

	mu   sync.Mutex
	open map[net.Conn]*connection
	of   map[netip.Addr]int
	idle *order.List // of *connection: the one that has been idle the longest first
	said time.Time   // when it was last logged that there are too many
}

// connection is one that is open.
type connection struct {
	conn   net.Conn
	client netip.Addr     // not valid: it counts for no client
	idle   *order.Element // nil: a request is answered
}

func newConnections(limit Connections, log logr.Logger) *connections {
	return &connections{
		limit: limit, log: log, open: map[net.Conn]*connection{}, of: map[netip.Addr]int{}, idle: order.New(),
	}
}

// changed takes the new state of a connection. The server calls it with a new one before it accepts the next.
func (cs *connections) changed(c net.Conn, state http.ConnState) {
	if state == http.StateNew {
		if away := cs.enter(c); away != nil {
			closeNow(away)
		}
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	known := cs.open[c]
	switch {
	case known == nil: // it gave way
	case state == http.StateIdle:
		cs.rest(known)
	case state == http.StateActive:
		cs.wake(known)
	default: // it is closed, or the handler's own
		cs.leave(known)
	}
}

// enter counts a new connection, and returns the one that has to be closed for it, or itself; nil: none.
func (cs *connections) enter(c net.Conn) (away net.Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	fresh := &connection{conn: c, client: ClientAt(c.RemoteAddr().String())}
	if fresh.client.IsLoopback() {
		fresh.client = netip.Addr{}
	}
	ofClient := fresh.client.IsValid() && cs.of[fresh.client] >= cs.limit.MostOfOne
	if ofClient || len(cs.open) >= cs.limit.Most {
		cs.tell()
		longest := cs.longestIdle(fresh.client, ofClient)
		if longest == nil {
			return c
		}
		cs.leave(longest)
		away = longest.conn
	}
	cs.open[c] = fresh
	if fresh.client.IsValid() {
		cs.of[fresh.client]++
	}
	cs.rest(fresh)
	return away
}

// longestIdle is the connection, of the client or of any, that has been idle the longest; nil: none is.
func (cs *connections) longestIdle(client netip.Addr, ofClient bool) *connection {
	for e := cs.idle.Front(); e != nil; e = e.Next() {
		c := e.Value.(*connection) //nolint:forcetypeassert // the list holds no others
		if !ofClient || c.client == client {
			return c
		}
	}
	return nil
}

func (cs *connections) rest(c *connection) {
	cs.wake(c)
	c.idle = cs.idle.PushBack(c)
}

func (cs *connections) wake(c *connection) {
	if c.idle != nil {
		cs.idle.Remove(c.idle)
		c.idle = nil
	}
}

func (cs *connections) leave(c *connection) {
	cs.wake(c)
	delete(cs.open, c.conn)
	if !c.client.IsValid() {
		return
	}
	if cs.of[c.client]--; cs.of[c.client] == 0 {
		delete(cs.of, c.client)
	}
}

// tell logs, once a minute at most, that there are too many connections.
func (cs *connections) tell() {
	if now := time.Now(); now.Sub(cs.said) >= time.Minute {
		cs.said = now
		cs.log.Info("Too many connections are open: idle ones are closed, or else new ones")
	}
}

// closeNow closes a connection without a word: that of TLS might wait for its reader.
func closeNow(c net.Conn) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	_ = c.Close() // nothing is left to be said
}

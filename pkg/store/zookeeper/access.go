package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// access is what all parts of a store need to reach its znodes.
type access struct {
	layout
	client    *client
	causes    *dbstore.Causes
	acl       func() []zk.ACL // of znodes that are made now
	clock     clock
	floorBase base
	timeout   time.Duration // of requests
	log       logr.Logger
}

// found is a znode's data.
type found struct {
	data []byte
	stat *zk.Stat
}

// get reads a znode from the server at hand, which may be behind the others. Absent: stat is nil.
func (a *access) get(ctx context.Context, path string) (found, error) {
	f, err := do(ctx, a.client, func(conn *zk.Conn) (found, error) {
		data, stat, err := conn.Get(path)
		return found{data, stat}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return found{}, nil
	}
	if err != nil {
		return found{}, err
	}
	a.clock.read(f.stat)
	return f, nil
}

// children lists a znode's children, from the server at hand. With watch the next change of them is an event.
func (a *access) children(ctx context.Context, path string, watch bool) ([]string, error) {
	return do(ctx, a.client, func(conn *zk.Conn) ([]string, error) {
		if !watch {
			names, _, err := conn.Children(path)
			return names, err
		}
		names, _, _, err := conn.ChildrenW(path)
		return names, err
	})
}

// set writes a znode's data, whatever they were.
func (a *access) set(ctx context.Context, path string, data []byte) error {
	stat, err := do(ctx, a.client, func(conn *zk.Conn) (*zk.Stat, error) { return conn.Set(path, data, -1) })
	if err == nil {
		a.clock.write(stat, time.Now())
	}
	return err
}

// exists says whether a znode is there. It needs no rights.
func (a *access) exists(ctx context.Context, path string) (bool, error) {
	return do(ctx, a.client, func(conn *zk.Conn) (bool, error) {
		there, _, err := conn.Exists(path)
		return there, err
	})
}

// create makes a znode unless it is there.
func (a *access) create(ctx context.Context, path string, data []byte) error {
	_, err := do(ctx, a.client, func(conn *zk.Conn) (string, error) { return conn.Create(path, data, 0, a.acl()) })
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// decode is what a znode's data say; nil: there is none, or what is there cannot be read, for the reason that malformed
// is.
func decode(kind driver.Kind, id string, f found) (d *driver.Doc, malformed error) {
	if f.stat == nil {
		return nil, nil
	}
	doc, err := dbstore.Decode(kind, id, f.data)
	if err != nil {
		return nil, err
	}
	return &doc, nil
}

// multi sends operations that happen together or not at all. The error is that of the first one that cannot.
func (a *access) multi(ctx context.Context, ops []any) error {
	answers, err := do(ctx, a.client, func(conn *zk.Conn) ([]zk.MultiResponse, error) { return conn.Multi(ops...) })
	at := time.Now()
	if err != nil {
		return err
	}
	for _, one := range answers {
		if one.Stat != nil {
			a.clock.write(one.Stat, at)
		}
	}
	return nil
}

const (
	// dialTimeout bounds a connection's TCP and TLS handshakes.
	dialTimeout = time.Second
	// greetTimeout bounds the wait for a session on a new connection. A stopped process still accepts connections: its
	// kernel does. The library alone would wait for ten times as long as a session lives.
	greetTimeout = 1500 * time.Millisecond
	// minSilence is how long a server has to be silent before a call that got no answer gives it up.
	minSilence = 500 * time.Millisecond
)

// link is a connection that knows when it last heard of the server.
type link struct {
	net.Conn
	begun   time.Time
	heard   atomic.Int64 // nanoseconds after begun
	greeted atomic.Bool  // it has a session
	failed  func(error)  // gets why a read failed
}

// Read implements [net.Conn].
func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n > 0 {
		l.heard.Store(int64(time.Since(l.begun)))
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		l.failed(err)
	}
	return n, err
}

// SetReadDeadline implements [net.Conn]. Until there is a session it is at most greetTimeout from now.
func (l *link) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(greetTimeout); !l.greeted.Load() && t.After(latest) {
		t = latest
	}
	return l.Conn.SetReadDeadline(t)
}

// silentSince says whether the server has said nothing since t, and that for a while. Pings are answered even where
// writes wait for a majority.
func (l *link) silentSince(t time.Time) bool {
	heard := l.begun.Add(time.Duration(l.heard.Load()))
	return heard.Before(t) && time.Since(t) >= minSilence
}

// login is who the URI names, and how connections are secured.
type login struct {
	user, password string
	tls            *tls.Config // nil: no TLS
}

// digest is a login as ZooKeeper takes it; empty: anyone.
func (l login) digest() string {
	if l.user == "" {
		return ""
	}
	return l.user + ":" + l.password
}

// newSource reads the URI of a configuration, and the files that it names.
func newSource(o Options) (*storeuri.Source[login], error) {
	return storeuri.NewSource(o, nil, func(uri string) (login, error) {
		u, err := parseURI(uri)
		if err != nil {
			return login{}, err
		}
		files, err := u.TLS(false)
		if err != nil {
			return login{}, err
		}
		config, err := files.Config()
		return login{u.User, u.Password, config}, err
	})
}

// dialer makes connections, with TLS where the URI asks for it.
type dialer struct {
	source *storeuri.Source[login]
}

func (d dialer) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	now := d.source.Get()
	if now.tls == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
		return conn, nil
	}
	conn, err := (&tls.Dialer{Config: now.tls}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect with TLS to %s: %w", address, err)
	}
	return conn, nil
}

// hosts takes servers in turn, as [zk.HostProvider] asks. Names are resolved at each connection, and not once for all.
// So the pod of a server may get another address, and TLS sees the name that was asked for.
type hosts struct {
	all    []string
	next   int
	failed int // in a row
}

// Init implements [zk.HostProvider]. The servers come shuffled.
func (h *hosts) Init(servers []string) error {
	h.all = servers
	return nil
}

// Len implements [zk.HostProvider].
func (h *hosts) Len() int { return len(h.all) }

// Next implements [zk.HostProvider]. The library pauses for a second after each round in which no server was reached.
func (h *hosts) Next() (server string, retryStart bool) {
	server = h.all[h.next]
	h.next = (h.next + 1) % len(h.all)
	retryStart = h.failed > 0 && h.failed%len(h.all) == 0
	h.failed++
	return server, retryStart
}

// Connected implements [zk.HostProvider].
func (h *hosts) Connected() { h.failed = 0 }

// isAnswer says that the ensemble has decided about a change: its condition did not hold, and nothing was written.
func isAnswer(err error) bool {
	for _, one := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// causes are what another try does not change. user is the URI's, base the znode of the cluster.
func causes(user, base string) *dbstore.Causes {
	who := "anyone (the URI names no user)"
	if user != "" {
		who = "user " + user
	}
	return &dbstore.Causes{Table: []dbstore.Cause{
		{Is: zk.ErrNoAuth, Advice: who + " may not do this below " + base + ": wrong password, or grant cdrw there"},
		// The client knows these two by their codes alone.
		{
			Says: "unknown error: -125", Means: driver.ErrUnavailable,
			Advice: "a quota on " + base + " or above is exceeded: listquota shows it, setquota raises it",
		},
		{
			Says: "unknown error: -127", Means: driver.ErrUnavailable,
			Advice: "the server sheds load: it throttles requests that wait for too long",
		},
		{Is: zk.ErrAuthFailed},
		{Is: zk.ErrInvalidACL},
		{Is: errRefused},
	}}
}

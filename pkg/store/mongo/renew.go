package mongo

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	driverevent "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// origin is what clients are made from: the URI, and what the files that it names hold.
type origin struct {
	uri string
	sum [sha256.Size]byte // of the files
}

// originOf refuses what no client can be made from. Errors wrap [driver.ErrInvalid].
func originOf(uri string) (origin, error) {
	of, sum := origin{uri: uri}, sha256.New()
	_, query, _ := strings.Cut(uri, "?")
	for param := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(param, "=")
		path, err := url.QueryUnescape(value)
		if err != nil || path == "" || !strings.HasSuffix(strings.ToLower(name), "file") {
			continue // the driver's own parameters of files are all named so
		}
		content, err := os.ReadFile(path) //nolint:gosec // G304: the file is one that the URI names
		if err != nil {
			return of, fmt.Errorf("%w: %s: %w", driver.ErrInvalid, name, err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
	}
	of.sum = [sha256.Size]byte(sum.Sum(nil))
	if isSRV(uri) {
		return of, nil // to read it asks the DNS
	}
	if err := options.Client().ApplyURI(uri).Validate(); err != nil {
		return of, fmt.Errorf("%w: %s", driver.ErrInvalid, storeuri.Scrub(err.Error(), secretParams.Of(uri)))
	}
	return of, nil
}

// renew has other clients take the place of those there are, when what these were made from was renewed: the driver
// keeps what it was made with. It is called for each connection, and waits for nothing.
func (l *links) renew() {
	was := l.clients()
	if was == nil || !l.renewing.CompareAndSwap(false, true) {
		return
	}
	from := l.source.Get()
	if from == was.from || !l.life.Go(func() {
		defer l.renewing.Store(false)
		l.replace(from)
	}) {
		l.renewing.Store(false)
	}
}

// replace makes clients and uses them once they have reached the primary. Until then those there are serve: what is
// renewed may not be whole yet, or not known to the servers.
func (l *links) replace(from origin) {
	ctx, cancel := context.WithTimeout(l.life.Context(), dbstore.Limit(l.timeout))
	defer cancel()
	made, err := l.make(ctx, from)
	if err == nil {
		err = made.client.Ping(ctx, nil)
	}
	if err != nil {
		l.log.V(1).Info("The primary cannot be reached with renewed credentials", "error",
			l.causes.Describe(err).Error())
		_ = made.disconnect(ctx) // nothing was done by them
		return
	}
	_ = l.now.Swap(made).disconnect(ctx) // calls that are under way fail, and are repeated by the new ones
}

// logIns are the codes by which a server says that a connection has not, or no longer, the rights of its user:
// Unauthorized, UserNotFound, AuthenticationFailed, MechanismUnavailable, ReauthenticationRequired.
var logIns = []int{codeUnauthorized, 11, 18, 334, 391}

// renewal closes the connections of one client whose log-in has ended, as when its user was dropped and made again: a
// server refuses everything on them from then on, and the driver would use them for ever. It makes others when they are
// gone. Where anything was answered within the time of a call, the log-in holds and a privilege is missing: then nothing
// is closed. Its methods may be called concurrently.
type renewal struct {
	within  time.Duration // the time of a call
	pace    dbstore.Pace
	dialer  net.Dialer
	connect func() // called before each connection is made; it does not block for long
	// How often it came into doubt whether the connections lead to the store that was opened, and how many of these doubts
	// are settled.
	doubts, settled atomic.Int64

	mu     sync.Mutex
	conns  map[*renewed]struct{}
	served time.Time // when a command was last answered with success
}

func newRenewal(call time.Duration, connect func()) *renewal {
	return &renewal{
		within: call, pace: dbstore.Pace{Every: call}, connect: connect, conns: map[*renewed]struct{}{},
		served: time.Now(),
	}
}

// renewed is a connection that its client may be made to close.
type renewed struct {
	net.Conn
	of *renewal
}

// DialContext implements [options.ContextDialer].
func (r *renewal) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	r.connect()
	conn, err := r.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &renewed{conn, r}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c] = struct{}{}
	return c, nil
}

// Close implements [net.Conn].
func (c *renewed) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// monitor takes note of what commands come to.
func (r *renewal) monitor() *driverevent.CommandMonitor {
	return &driverevent.CommandMonitor{
		Succeeded: func(context.Context, *driverevent.CommandSucceededEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.served = time.Now()
		},
		Failed: func(_ context.Context, failed *driverevent.CommandFailedEvent) {
			if hasCode(failed.Failure, logIns...) {
				r.refused(time.Now())
			}
		},
	}
}

// poolMonitor counts the connections that are made: each may lead elsewhere.
func (r *renewal) poolMonitor() *driverevent.PoolMonitor {
	return &driverevent.PoolMonitor{Event: func(e *driverevent.PoolEvent) {
		if e.Type == driverevent.ConnectionReady {
			r.doubts.Add(1)
		}
	}}
}

// refused closes all connections where none has served for the time of a call.
func (r *renewal) refused(now time.Time) {
	r.mu.Lock()
	served := now.Sub(r.served) <= r.within
	r.mu.Unlock()
	if !served {
		r.leave(now)
	}
}

// leave closes all connections, once in the time of a call.
func (r *renewal) leave(now time.Time) {
	r.mu.Lock()
	var all []*renewed
	if r.pace.Let(now) {
		for c := range r.conns {
			all = append(all, c)
		}
	}
	r.mu.Unlock()
	for _, c := range all {
		_ = c.Conn.Close() // its client sees that it broke
	}
}

package mongo

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	driverevent "go.mongodb.org/mongo-driver/v2/event"

	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// logIns are the codes by which a server says that a connection has not, or no longer, the rights of its user:
// Unauthorized, UserNotFound, AuthenticationFailed, MechanismUnavailable, ReauthenticationRequired.
var logIns = []int{codeUnauthorized, 11, 18, 334, 391}

// renewal closes the connections of one client whose log-in has ended, as when its user was dropped and made again: a
// server refuses everything on them from then on, and the driver would use them for ever. It makes others when they are
// gone. Where anything was answered within the time of a call, the log-in holds and a privilege is missing: then nothing
// is closed. Its methods may be called concurrently.
type renewal struct {
	within time.Duration // the time of a call
	pace   engine.Pace
	dialer net.Dialer
	// How often it came into doubt whether the connections lead to the store that was opened, and how many of these doubts
	// are settled.
	doubts, settled atomic.Int64

	mu     sync.Mutex
	conns  map[*renewed]struct{}
	served time.Time // when a command was last answered with success
}

func newRenewal(call time.Duration) *renewal {
	return &renewal{within: call, pace: engine.Pace{Every: call}, conns: map[*renewed]struct{}{}, served: time.Now()}
}

// renewed is a connection that its client may be made to close.
type renewed struct {
	net.Conn
	of *renewal
}

// DialContext implements [options.ContextDialer].
func (r *renewal) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
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

package elect

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
)

// Lease is what a run holds in its hand. All methods may be called concurrently.
type Lease struct {
	c       *calls
	keeper  keeper
	key     Key
	session string
	token   atomic.Int64
	lost    atomic.Bool
	suspend atomic.Bool

	mu     sync.Mutex
	status TaskStatus
	value  *fencedValue // of the newest token that asked for it
}

// keeper holds keys, for leases. Its methods are called in the loop.
type keeper interface {
	// report notes the lease's status in the lock.
	report(l *Lease)
	// advance asks for a new token.
	advance(l *Lease, status TaskStatus, done chan<- advanceResult)
	// writerID names a write of the session.
	writerID() store.WriterID
}

type advanceResult struct {
	token int64
	err   error
}

func newLease(c *calls, keeper keeper, session string, key Key, token int64, status TaskStatus) *Lease {
	l := &Lease{c: c, keeper: keeper, key: key, session: session, status: status}
	l.token.Store(token)
	return l
}

// Key is what is held.
func (l *Lease) Key() Key { return l.key }

// Session is the session that holds it.
func (l *Lease) Session() string { return l.session }

// Token is the fencing token: give it to whatever the work changes, and let that refuse a token smaller than the
// largest it has seen. It rises with every start of the key, for ever.
func (l *Lease) Token() int64 { return l.token.Load() }

// Valid says whether work may go on now. It asks only the local clock.
func (l *Lease) Valid() bool {
	v := l.c.lease.Load()
	return !l.lost.Load() && v.open && v.session == l.session && !l.c.clock.Now().Reached(v.acked, l.c.p.Renew)
}

// Deadline is the moment, on the local clock, at which nothing of the work may be alive any more unless the lease is
// renewed before. It moves on with each acknowledged heartbeat. The zero time says the lease is lost.
func (l *Lease) Deadline() time.Time {
	v := l.c.lease.Load()
	if l.lost.Load() || v.session != l.session {
		return time.Time{}
	}
	return time.Now().Add(l.c.p.Hard - l.c.clock.Now().HolderElapsed(v.acked))
}

// Status is what the lock says of the work, as this holder last reported it or an earlier one left it.
func (l *Lease) Status() TaskStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Report notes a new status in the lock: soon, and at most the newest one. The release of the key carries the
// newest that was reported before the run ended, in the same write. It does not wait. A status with a text beyond
// MaxText is left out, and logged.
func (l *Lease) Report(status TaskStatus) {
	if err := status.Validate(); err != nil {
		l.c.log.Error(err, "A status is not noted", "key", l.key)
		return
	}
	l.setStatus(status)
	l.c.box.postSoon(func() { l.keeper.report(l) })
}

// Advance writes the status and returns a new, larger token once the write is known to have happened. Each start
// after the first does so before it runs anything. Errors: ErrLeaseLost, ErrReleased, ErrTooLarge, or the context's
// cause.
func (l *Lease) Advance(ctx context.Context, status TaskStatus) (int64, error) {
	if err := status.Validate(); err != nil {
		return 0, fmt.Errorf("advance %s: %w", l.key, err)
	}
	done := make(chan advanceResult, 1)
	if err := l.c.box.send(ctx, func() { l.keeper.advance(l, status, done) }); err != nil {
		return 0, err
	}
	select {
	case res := <-done:
		return res.token, res.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-l.c.box.over:
		return 0, ErrClosed
	}
}

// Suspend leaves the lock out of the sweeps once it is released, until it is claimed on purpose. A run
// that is done for good says so before it returns.
func (l *Lease) Suspend() { l.suspend.Store(true) }

func (l *Lease) setStatus(status TaskStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status = status
}

package elect

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
)

// RunFunc is the work done under a lock. ctx ends, with a cause (ErrReleased, ErrLeaseLost, ErrMaxHold), when the key
// is to be released. The lock is released when RunFunc has returned, and never before. By returning it says that
// nothing of the work is left.
type RunFunc func(ctx context.Context, lease *Lease) error

// Runnable is a run that is informed when it begins and when it has to end, so that it needs no goroutine while it
// waits. Its key is released once it has ended, and never before. [Go] makes one of a RunFunc.
//
// Start and Stop are called by what renews the lease. They return at once, and call no method that waits for the
// elector ([Lease.Advance], [Elector.Unlock] and the like).
type Runnable interface {
	// Start begins the run under the lease. The run calls ended once, from any goroutine, when nothing of it is
	// left. After that it may be started again, under the lease of another claim.
	Start(lease *Lease, ended func(error))
	// Stop asks the run to end. The cause is ErrReleased when the key is to be released, or ErrLeaseLost. It may be
	// called again, also concurrently, when the lease is lost after a release was asked for. It may come when the run
	// has just ended.
	Stop(cause error)
}

// Elect is a lock per key with one owner in the cluster. All methods may be called concurrently.
type Elect interface {
	// Lock tries to own the key, once, and runs run in a goroutine of its own when it does. It returns once run has
	// started (true), or when the key is held by another (false). The error says why it could not be tried, or is not
	// known: ErrUnavailable when the store does not answer for the lease duration, with what it has said last. A store
	// that refuses for good ([store.Lasting]) ends the call at once with its error, and a context that ends with a
	// [WaitError] unless the store has answered.
	Lock(ctx context.Context, key Key, run RunFunc) (ok bool, err error)
	// Unlock asks the key's run to end and returns once the release is acknowledged. A ctx that has ended, or that is
	// cancelled meanwhile, bounds it by half of the lease duration, 10 s at most. Errors: its cause, in a [WaitError]
	// with what the store has said last if it does not answer; ErrNotHeld when it is not held here, ErrInsideRun from
	// inside the key's own run, ErrLeaseLost when the lock was lost before its release was acknowledged.
	Unlock(ctx context.Context, key Key) error
	// HoldingKeys lists the keys whose run goes on here, in order.
	HoldingKeys() []Key
	// LockedKeys lists the keys that anybody in the cluster owns, in order.
	LockedKeys(ctx context.Context) ([]Key, error)
	// Close releases all keys, ends the session and waits until both are acknowledged or ctx ends, which counts as for
	// Unlock. Mutexes that are held end, and are waited for until they are unlocked, for 0.9 of the lease duration at
	// most. ErrNotRunning before Run; ErrInsideRun from inside a run; store.ErrUnavailable when the store did not
	// acknowledge, and its error once nothing runs any more and it refuses for good.
	Close(ctx context.Context) error
}

// LockOptions are what [Elector.LockWith] can do in addition to Lock. The zero value is Lock.
type LockOptions struct {
	// Wait is how long to wait for a key that another holds; 0: not at all. It must not be negative.
	Wait time.Duration
	// WaitForever waits until ctx ends. Wait does not count then.
	WaitForever bool
	// Reentrant lets a key that this elector already holds be locked again. run then shares the lease, and the key is
	// released when the last of them has returned.
	Reentrant bool
	// MaxHold ends the run's context, with cause ErrMaxHold, after so long; 0: never.
	MaxHold time.Duration
	// Reason is noted in the lock; empty: ReasonCreated or ReasonOrphaned, as fits.
	Reason Reason
	// Message is noted in the lock, for people; at most MaxText bytes.
	Message string
	// AnyCap lets the key pass the caps.
	AnyCap bool
	// Seen is the view by which [Cluster]'s Claim was decided. A key whose lock has changed since is left out, since
	// what changed may speak against it. Nil: the keys are claimed as they are now.
	Seen *cluster.View

	// adopt runs the key again, under a new token, when the lease is valid again after an outage.
	adopt bool
}

// Holder is who holds a key.
type Holder struct {
	Key      Key
	Instance string
	Session  string
	Token    int64
	Since    time.Time // by the store's clock
	Alive    bool      // false: its session is known to be dead, and the key is free to take
}

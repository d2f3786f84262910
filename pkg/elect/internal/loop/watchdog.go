package loop

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
)

// ErrLeaseLost is the cause of a run's end at its deadline. Package elect shows it under the same name.
var ErrLeaseLost = errors.New("lease lost")

// Lease is the lease of the session as its machine has it, for those who look at the clock without the loop. When D and
// X come is said by [protocol.Lease] alone. Its methods may be called concurrently.
type Lease struct {
	p     protocol.Params
	clock SteadyClock
	now   atomic.Pointer[engine.LeaseChanged]
}

func newLease(p protocol.Params, clock SteadyClock) *Lease {
	l := &Lease{p: p, clock: clock}
	l.set(engine.LeaseChanged{})
	return l
}

func (l *Lease) set(x engine.LeaseChanged) { l.now.Store(&x) }

// Session is the session that holds the lease; empty before the first.
func (l *Lease) Session() string { return l.now.Load().Session }

// Valid says whether the session's runs may go on.
func (l *Lease) Valid(session string) bool {
	v := l.now.Load()
	return v.Session == session && v.Lease.Valid(l.p, l.clock.Now())
}

// UntilHard is the time left before X; ok is false when the session is another.
func (l *Lease) UntilHard(session string) (left time.Duration, ok bool) {
	v := l.now.Load()
	return v.Lease.UntilHard(l.p, l.clock.Now()), v.Session == session
}

// Watchdog ends runs at their deadlines although the loop is held up: by a log sink, a hook, or anything else that
// blocks. It reads nothing but the lease, on a goroutine of its own. The loop that comes back finds out by takeExpired.
// Its methods may be called concurrently.
type Watchdog struct {
	lease *Lease

	mu      sync.Mutex
	runs    map[*WatchedRun]struct{}
	expired []*WatchedRun    // that were stopped, until the loop hears of it
	hard    protocol.Instant // the acknowledgement whose hard deadline was reported
}

// stopper asks a run to end.
type stopper interface{ Stop(cause error) }

// WatchedRun is one run that has not ended. Its address says it from others, of which one key may have several.
type WatchedRun struct {
	Run     stopper
	Key     record.Key
	Session string
	// Harmless: its Stop leaves nothing of it that could outlive the lease
	Harmless bool
	begun    bool // Start has returned; guarded by the watchdog's mutex
	ended    bool // likewise
	Expired  atomic.Bool
}

func newWatchdog(l *Lease) *Watchdog { return &Watchdog{lease: l, runs: map[*WatchedRun]struct{}{}} }

// Add has a run ended at D from its Begun on, until Remove.
func (w *Watchdog) Add(r *WatchedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[r] = struct{}{}
}

// Begun says that the run can be stopped.
func (w *Watchdog) Begun(r *WatchedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.begun = true
}

// Remove says that the run has ended.
func (w *Watchdog) Remove(r *WatchedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.ended = true
	delete(w.runs, r)
}

// due is what has come up by now: runs to be stopped since D has come, and keys whose runs are still there at X. It
// says how long to wait for the next of these.
func (w *Watchdog) due(now protocol.Instant) (stop []*WatchedRun, stuck []record.Key, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, p := w.lease.now.Load(), w.lease.p
	toCancel, toHard := v.Lease.UntilCancel(p, now), v.Lease.UntilHard(p, now)
	hard := toHard <= 0 && w.hard != v.Lease.Acked
	for r := range w.runs {
		if r.Session != v.Session {
			continue
		}
		if toCancel <= 0 && r.begun && r.Expired.CompareAndSwap(false, true) {
			stop = append(stop, r)
			w.expired = append(w.expired, r)
		}
		if hard && !r.Harmless {
			stuck = append(stuck, r.Key)
		}
	}
	if hard {
		w.hard = v.Lease.Acked
	}
	wait = p.Wake
	for _, left := range []time.Duration{toCancel, toHard} {
		if left > 0 {
			wait = min(wait, left)
		}
	}
	slices.Sort(stuck)
	return stop, stuck, wait
}

// takeExpired lists the runs that were stopped since the last call and have not ended.
func (w *Watchdog) takeExpired() []*WatchedRun {
	w.mu.Lock()
	defer w.mu.Unlock()
	runs := slices.DeleteFunc(w.expired, func(r *WatchedRun) bool { return r.ended })
	w.expired = nil
	return runs
}

// stop stops a run that has not ended meanwhile.
func (w *Watchdog) stop(r *WatchedRun) {
	w.mu.Lock()
	ended := r.ended
	w.mu.Unlock()
	if !ended {
		r.Run.Stop(ErrLeaseLost)
	}
}

// watch ends runs at their deadlines until ctx ends. A run whose Stop blocks holds up no other, and neither does
// onStuck.
func (w *Watchdog) watch(ctx context.Context, work *sync.WaitGroup, onStuck func([]record.Key)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		stop, stuck, wait := w.due(w.lease.clock.Now())
		for _, r := range stop {
			work.Go(func() { w.stop(r) })
		}
		if len(stuck) > 0 {
			onStuck(stuck)
		}
		timer.Reset(wait)
	}
}

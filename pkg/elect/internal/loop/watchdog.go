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

// watchdog ends runs at their deadlines although the loop is held up: by a log sink, a hook, or anything else that
// blocks. It reads nothing but the lease, on a goroutine of its own. The loop that comes back finds out by takeExpired.
// It has the lease as the session's machine has it, and shows it to those who look at the clock without the loop. When
// D and X come is said by [protocol.Lease] alone.
type watchdog struct {
	p     protocol.Params
	clock SteadyClock
	lease atomic.Pointer[engine.LeaseChanged]

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

func newWatchdog(p protocol.Params, clock SteadyClock) *watchdog {
	w := &watchdog{p: p, clock: clock, runs: map[*WatchedRun]struct{}{}}
	w.set(engine.LeaseChanged{})
	return w
}

func (w *watchdog) set(x engine.LeaseChanged) { w.lease.Store(&x) }

func (w *watchdog) session() string { return w.lease.Load().Session }

func (w *watchdog) valid(session string) bool {
	v := w.lease.Load()
	return v.Session == session && v.Lease.Valid(w.p, w.clock.Now())
}

func (w *watchdog) untilHard(session string) (left time.Duration, ok bool) {
	v := w.lease.Load()
	return v.Lease.UntilHard(w.p, w.clock.Now()), v.Session == session
}

func (w *watchdog) add(r *WatchedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[r] = struct{}{}
}

func (w *watchdog) begun(r *WatchedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.begun = true
}

func (w *watchdog) remove(r *WatchedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.ended = true
	delete(w.runs, r)
}

// due is what has come up by now: runs to be stopped since D has come, and keys whose runs are still there at X. It
// says how long to wait for the next of these.
func (w *watchdog) due(now protocol.Instant) (stop []*WatchedRun, stuck []record.Key, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.lease.Load()
	toCancel, toHard := v.Lease.UntilCancel(w.p, now), v.Lease.UntilHard(w.p, now)
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
	wait = w.p.Wake
	for _, left := range []time.Duration{toCancel, toHard} {
		if left > 0 {
			wait = min(wait, left)
		}
	}
	slices.Sort(stuck)
	return stop, stuck, wait
}

// takeExpired lists the runs that were stopped since the last call and have not ended.
func (w *watchdog) takeExpired() []*WatchedRun {
	w.mu.Lock()
	defer w.mu.Unlock()
	runs := slices.DeleteFunc(w.expired, func(r *WatchedRun) bool { return r.ended })
	w.expired = nil
	return runs
}

// stop stops a run that has not ended meanwhile.
func (w *watchdog) stop(r *WatchedRun) {
	w.mu.Lock()
	ended := r.ended
	w.mu.Unlock()
	if !ended {
		r.Run.Stop(ErrLeaseLost)
	}
}

// watch ends runs at their deadlines until ctx ends. A run whose Stop blocks holds up no other, and neither does
// onStuck.
func (w *watchdog) watch(ctx context.Context, work *sync.WaitGroup, onStuck func([]record.Key)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		stop, stuck, wait := w.due(w.clock.Now())
		for _, r := range stop {
			work.Go(func() { w.stop(r) })
		}
		if len(stuck) > 0 {
			onStuck(stuck)
		}
		timer.Reset(wait)
	}
}

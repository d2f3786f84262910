package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// watchdog ends runs at their deadlines although the loop is held up: by a log sink, a hook, or anything else that
// blocks. It reads nothing but the published validity, on a goroutine of its own. The loop that comes back finds
// out by takeExpired.
type watchdog struct {
	p     protocol.Params
	clock SteadyClock
	lease *atomic.Pointer[validity]

	mu      sync.Mutex
	runs    map[*WatchedRun]struct{}
	expired []record.Key     // of runs that were stopped, until the loop hears of it
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

func newWatchdog(p protocol.Params, clock SteadyClock, lease *atomic.Pointer[validity]) *watchdog {
	return &watchdog{p: p, clock: clock, lease: lease, runs: map[*WatchedRun]struct{}{}}
}

func (w *watchdog) Add(r *WatchedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[r] = struct{}{}
}

func (w *watchdog) Begun(r *WatchedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.begun = true
}

func (w *watchdog) Remove(r *WatchedRun) {
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
	elapsed := now.HolderElapsed(v.Acked)
	hard := elapsed >= w.p.Hard && w.hard != v.Acked
	for r := range w.runs {
		if r.Session != v.Session {
			continue
		}
		if elapsed >= w.p.Renew && r.begun && r.Expired.CompareAndSwap(false, true) {
			stop = append(stop, r)
			w.expired = append(w.expired, r.Key)
		}
		if hard && !r.Harmless {
			stuck = append(stuck, r.Key)
		}
	}
	if hard {
		w.hard = v.Acked
	}
	wait = w.p.Wake
	for _, d := range []time.Duration{w.p.Renew, w.p.Hard} {
		if left := d - elapsed; left > 0 {
			wait = min(wait, left)
		}
	}
	slices.Sort(stuck)
	return stop, stuck, wait
}

// takeExpired lists the keys whose runs have been stopped since the last call.
func (w *watchdog) takeExpired() []record.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := w.expired
	w.expired = nil
	return keys
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

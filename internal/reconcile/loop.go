package reconcile

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

// LoopConfig is what a Loop is made of.
type LoopConfig struct {
	Cluster elect.Cluster
	// Run makes the work of a key. It is called in the elector's loop and must not block.
	Run    func(elect.Key) elect.Runnable
	Policy Policy
	Clock  func() time.Time // required: time.Now
	Logger logr.Logger
	// Decided is called after each decision with how long it took; may be nil.
	Decided func(took time.Duration)
}

// Loop is the reconciliation loop of one replica: it makes the plan from what it sees and acts on its own part.
type Loop struct {
	cfg      LoopConfig
	mu       sync.Mutex
	declared Declared
	known    []elect.Key // what is declared, in order
	wake     chan struct{}
	report   atomic.Pointer[Report]
}

// NewLoop makes a Loop that has nothing declared.
func NewLoop(cfg LoopConfig) (*Loop, error) {
	var errs []error
	if cfg.Cluster == nil {
		errs = append(errs, errors.New("cluster: required"))
	}
	if cfg.Run == nil {
		errs = append(errs, errors.New("run: required"))
	}
	if cfg.Clock == nil {
		errs = append(errs, errors.New("clock: required"))
	}
	return &Loop{cfg: cfg, wake: make(chan struct{}, 1)}, errors.Join(errs...)
}

// Declare replaces the task lists. Removed keys are released, new ones claimed.
func (l *Loop) Declare(ctx context.Context, d Declared) error {
	var known []elect.Key
	for _, g := range d.Groups {
		known = slices.Grow(known, len(g.Keys))
		for _, k := range g.Keys {
			known = append(known, k.Key)
		}
	}
	slices.Sort(known)
	l.mu.Lock()
	l.declared, l.known = d, known
	l.mu.Unlock()
	if err := l.cfg.Cluster.Track(ctx, d.Names()...); err != nil {
		return err
	}
	if err := l.cfg.Cluster.TakeReserved(ctx, l.runKnown); err != nil {
		return err
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return nil
}

// runKnown is the work of a key that is declared, else nil.
func (l *Loop) runKnown(key elect.Key) elect.Runnable {
	l.mu.Lock()
	_, known := slices.BinarySearch(l.known, key)
	l.mu.Unlock()
	if !known {
		return nil
	}
	return l.cfg.Run(key)
}

// Report returns what the last decision found; nil before the first.
func (l *Loop) Report() *Report { return l.report.Load() }

const (
	minGap  = 2 * time.Millisecond // between two decisions; more where deciding takes long
	maxIdle = 5 * time.Second      // even when nothing seems to change, or deciding took long
)

// Run decides and acts until ctx ends or the elector is closed. It returns nil then.
func (l *Loop) Run(ctx context.Context) error {
	var past history
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		changed := l.cfg.Cluster.Changed()
		begin := l.cfg.Clock()
		again, next, err := l.once(ctx, past, begin)
		past = next
		if errors.Is(err, elect.ErrClosed) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		took := l.cfg.Clock().Sub(begin)
		if l.cfg.Decided != nil {
			l.cfg.Decided(took)
		}
		if clock.Sleep(ctx, max(minGap, min(2*took, maxIdle))) != nil { // a flood of changes is met by few decisions
			return nil
		}
		if again <= 0 || again > maxIdle {
			again = maxIdle
		}
		timer.Reset(again)
		select {
		case <-changed:
		case <-l.wake:
		case <-timer.C:
		case <-l.cfg.Cluster.Done():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// once looks, decides and acts.
func (l *Loop) once(ctx context.Context, past history, now time.Time) (time.Duration, history, error) {
	l.mu.Lock()
	declared := l.declared
	l.mu.Unlock()
	view := l.cfg.Cluster.View()
	if !view.Loaded || !view.Open && !view.Draining {
		return 0, past, nil
	}
	past = past.follow(view, declared, now)
	if keys := reservedFor(view); len(keys) > 0 && !view.Draining {
		if err := l.take(ctx, keys); err != nil {
			return 0, past, err
		}
	}
	s := newSituation(view, declared, l.cfg.Policy, past.calm(view, now))
	s.keys = past.keys
	d, report := s.decide(past.wave, now)
	past.keys, past.wave = roomOf(s.keys), d.Wave
	if last := l.Report(); last != nil && slices.Equal(last.Unassigned, report.Unassigned) {
		report.Unassigned = last.Unassigned // there may be very many, and snapshots hold them as well
	}
	l.report.Store(&report)
	return d.Again, past, l.act(ctx, d, s)
}

// take claims what was handed over to this instance and not taken at once. It declines what it does not know or has no
// free capacity for.
func (l *Loop) take(ctx context.Context, keys []elect.Key) error {
	var known []elect.Key
	for _, key := range keys {
		if l.runKnown(key) != nil {
			known = append(known, key)
		}
	}
	if err := l.cfg.Cluster.Claim(ctx, known, elect.LockOptions{}, l.cfg.Run); err != nil {
		return err
	}
	// Claim has taken every key that the caps allow: Decline leaves those out.
	return l.cfg.Cluster.Decline(ctx, keys...)
}

func (l *Loop) act(ctx context.Context, d Decision, s *situation) error {
	if len(d.Release) > 0 {
		l.cfg.Logger.V(1).Info("Releasing keys", "tasks", len(d.Release))
		if err := l.cfg.Cluster.Release(ctx, d.Release...); err != nil {
			return err
		}
	}
	if len(d.Claim) == 0 {
		return nil
	}
	l.cfg.Logger.V(1).Info("Claiming keys", "tasks", len(d.Claim))
	why := map[Why][]elect.Key{}
	for _, key := range d.Claim {
		why[s.claiming(key)] = append(why[s.claiming(key)], key)
	}
	for w, keys := range why {
		opts := elect.LockOptions{Seen: s.view, Reason: w.Reason, Message: w.Message}
		if err := l.cfg.Cluster.Claim(ctx, keys, opts, l.cfg.Run); err != nil {
			return err
		}
	}
	return nil
}

// history is what the loop remembers from one decision to the next.
type history struct {
	members []string // sessions that are not dead, in order
	since   time.Time
	began   time.Time
	wave    Wave
	keys    []balancer.Key // of the last input: its room is used again, since there may be very many
}

// roomOf returns the room of an input's keys for the next one, and none where it is far larger than they needed: a list
// that has shrunk must not hold the memory of the one before for ever.
func roomOf(keys []balancer.Key) []balancer.Key {
	const few = 1000
	if cap(keys) > 4*len(keys)+few {
		return nil
	}
	clear(keys[len(keys):cap(keys)])
	return keys
}

// follow notes when the membership last changed, clients apart.
func (h history) follow(v *cluster.View, d Declared, now time.Time) history {
	ids := make([]string, 0, len(v.Sessions))
	for i := range v.Sessions {
		if s := &v.Sessions[i]; s.State != record.Dead && !d.client(s) {
			ids = append(ids, s.ID+string(s.State))
		}
	}
	slices.Sort(ids)
	if !slices.Equal(ids, h.members) || h.since.IsZero() {
		h.members, h.since = ids, now
	}
	if h.began.IsZero() {
		h.began = now
	}
	return h
}

func (h history) calm(v *cluster.View, now time.Time) Calm {
	return Calm{Quiet: now.Sub(h.since), Up: now.Sub(h.began), Outage: v.Outage}
}

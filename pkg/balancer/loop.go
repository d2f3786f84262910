package balancer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Elector is what the loop needs of package elect: *elect.Elector is one.
type Elector interface {
	View() *elect.View
	Changed() <-chan struct{}
	Done() <-chan struct{}
	Track(ctx context.Context, groups ...string) error
	Claim(ctx context.Context, keys []elect.Key, opts elect.LockOptions, run func(elect.Key) elect.Runnable) error
	TakeReserved(ctx context.Context, run func(elect.Key) elect.Runnable) error
	GiveUp(ctx context.Context, moves ...elect.HandOver) error
	Decline(ctx context.Context, keys ...elect.Key) error
}

// LoopConfig is what a Loop is made of.
type LoopConfig struct {
	Elector Elector
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
	known    map[elect.Key]bool // what is declared
	policy   Policy
	wake     chan struct{}
	report   atomic.Pointer[Report]
}

// Report is what the last decision found, for status and metrics. Nobody changes it.
type Report struct {
	// Unassigned lists, in order of keys, those that the plan gives to nobody, and why.
	Unassigned []Unassigned
	// Differs lists, by group, the instances whose list is another at the same revision.
	Differs map[string][]string
}

// NewLoop makes a Loop that has nothing declared.
func NewLoop(cfg LoopConfig) (*Loop, error) {
	var errs []error
	if cfg.Elector == nil {
		errs = append(errs, errors.New("elector: required"))
	}
	if cfg.Run == nil {
		errs = append(errs, errors.New("run: required"))
	}
	if cfg.Clock == nil {
		errs = append(errs, errors.New("clock: required"))
	}
	return &Loop{cfg: cfg, policy: cfg.Policy, wake: make(chan struct{}, 1)}, errors.Join(errs...)
}

// Declare replaces the task lists. Removed keys are given up, new ones claimed.
func (l *Loop) Declare(ctx context.Context, d Declared) error {
	known := map[elect.Key]bool{}
	for _, g := range d.Groups {
		for _, k := range g.Keys {
			known[k.Key] = true
		}
	}
	l.mu.Lock()
	l.declared, l.known = d, known
	l.mu.Unlock()
	if err := l.cfg.Elector.Track(ctx, d.Names()...); err != nil {
		return err
	}
	if err := l.cfg.Elector.TakeReserved(ctx, l.runKnown); err != nil {
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
	known := l.known[key]
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
	maxIdle = 5 * time.Second      // even when nothing seems to change
)

// Run decides and acts until ctx ends or the elector is closed. It returns nil then.
func (l *Loop) Run(ctx context.Context) error {
	var past history
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		changed := l.cfg.Elector.Changed()
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
		if !rest(ctx, max(minGap, 2*took)) {
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
		case <-l.cfg.Elector.Done():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// rest waits for d, so that a flood of changes is met by few decisions.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once looks, decides and acts.
func (l *Loop) once(ctx context.Context, past history, now time.Time) (time.Duration, history, error) {
	l.mu.Lock()
	s := situation{view: l.cfg.Elector.View(), declared: l.declared, policy: l.policy, now: now}
	l.mu.Unlock()
	if !s.view.Loaded || !s.view.Open && !s.view.Draining {
		return 0, past, nil
	}
	s.history = past.follow(s.view, s.declared, now)
	if keys := s.reservedForMe(); len(keys) > 0 && !s.view.Draining {
		if err := l.take(ctx, keys); err != nil {
			return 0, s.history, err
		}
	}
	d := s.decide()
	s.history = s.history.pace(&d, s.view.Draining, now)
	l.report.Store(&Report{Unassigned: d.plan.Unassigned, Differs: d.differs})
	return d.again, s.history, l.act(ctx, d, s.view)
}

// take claims what was handed over to this instance and not taken at once, and declines what it does not know or has no room
// for.
func (l *Loop) take(ctx context.Context, keys []elect.Key) error {
	var known []elect.Key
	for _, key := range keys {
		if l.runKnown(key) != nil {
			known = append(known, key)
		}
	}
	if err := l.cfg.Elector.Claim(ctx, known, elect.LockOptions{}, l.cfg.Run); err != nil {
		return err
	}
	// Claim has taken every key that the caps have room for: Decline leaves those out.
	return l.cfg.Elector.Decline(ctx, keys...)
}

func (l *Loop) act(ctx context.Context, d decision, seen *elect.View) error {
	if len(d.give) > 0 {
		l.cfg.Logger.V(1).Info("Giving keys up", "keys", len(d.give))
		if err := l.cfg.Elector.GiveUp(ctx, d.give...); err != nil {
			return err
		}
	}
	if len(d.claim) == 0 {
		return nil
	}
	l.cfg.Logger.V(1).Info("Claiming keys", "keys", len(d.claim))
	return l.cfg.Elector.Claim(ctx, d.claim, elect.LockOptions{Seen: seen}, l.cfg.Run)
}

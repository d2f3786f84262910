package subscribe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/internal/sleep"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/flow"
)

const (
	// closeTimeout is how long a subscription or a receiver may take to end in order.
	closeTimeout = 5 * time.Second
	// leaseLook is how often the lease is looked at while nothing may be begun without it.
	leaseLook = 50 * time.Millisecond
)

// reconnect is the pause between two tries to open a subscription.
var reconnect = tasks.Backoff{Initial: 200 * time.Millisecond, Max: 5 * time.Second}

var errGraceOver = errors.New("stop.timeout is over")

// Run subscribes and delivers for as long as ctx goes on. Asked to stop while the lease holds, it lets deliveries under
// way end within the task's stop.timeout, and acknowledges them. It also begins what they cannot be acknowledged
// without. After a lost lease it acknowledges nothing.
func (r Runner) Run(ctx context.Context, env tasks.Env) tasks.Ending {
	topic, err := env.Expand(r.Kind(), r.Source.Topic())
	if err != nil {
		return tasks.NotStarted(ctx, err)
	}
	letters, err := env.Expand("retry.deadLetter.topic", r.Retry.DeadLetter)
	if err != nil {
		return tasks.NotStarted(ctx, err)
	}
	title := r.Kind() + ":" + topic
	receiver, err := r.Sink.Open(ctx, env, Limits{InFlight: r.InFlight, Source: title})
	if err != nil {
		return tasks.NotStarted(ctx, err)
	}
	work, end := workContext(ctx, env)
	defer end()
	s := &run{
		Runner: r, env: env, work: work, receiver: receiver, title: title, letters: letters,
		health: newHealth(env.Status), past: map[string]flow.Past{},
	}
	err = s.keepOpen(ctx)
	closing, cancel := context.WithTimeout(work, closeTimeout)
	defer cancel()
	closed := receiver.Close(closing)
	if err != nil {
		return tasks.Ending{Err: err, Code: 1, ByItself: true, Final: true}
	}
	return tasks.Ending{Err: closed, Cut: true}
}

// workContext is for what goes on after ctx has ended: it ends with the time that the task has to stop, or with the
// lease. Call end when nothing of it goes on.
func workContext(ctx context.Context, env tasks.Env) (work context.Context, end func()) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); errors.Is(cause, elect.ErrLeaseLost) {
			cancel(cause)
			return
		}
		grace := time.NewTimer(env.Grace)
		defer grace.Stop()
		look := time.NewTicker(leaseLook)
		defer look.Stop()
		for {
			select {
			case <-work.Done():
				return
			case <-grace.C:
				cancel(errGraceOver)
				return
			case <-look.C:
				if until := env.Lease.Deadline(); !time.Now().Before(until) {
					cancel(elect.ErrLeaseLost)
					return
				}
			}
		}
	})
	return work, func() {
		unwatch()
		cancel(nil)
	}
}

// run is one run of a subscription.
type run struct {
	Runner
	env      tasks.Env
	work     context.Context // of deliveries and acknowledgements; it outlives the request to stop
	receiver Receiver
	title    string // kind and topic
	letters  string // topic for dead letters
	health   *health
	breaks   breaks
	lag      elect.Lag            // as it was said last
	past     map[string]flow.Past // of messages that failed before the subscription was opened again
}

// keepOpen opens the subscription whenever it is not, until ctx ends. An error says that it must not be opened again.
func (s *run) keepOpen(ctx context.Context) error {
	failures := 0
	for ctx.Err() == nil {
		began := time.Now()
		err := s.once(ctx)
		switch {
		case errors.Is(err, ErrStop):
			return err
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it had to end, and what was not acknowledged comes again elsewhere
		}
		if s.health.connection(err) {
			s.env.Log.Error(err, "A subscription is not open", "token", s.env.Start.Token)
		}
		if time.Since(began) >= steady {
			failures = 0
		}
		_ = sleep.For(ctx, reconnect.Delay(failures)) // the loop looks at ctx
		failures++
	}
	return nil
}

// once opens the subscription and delivers until it breaks, or ctx ends.
func (s *run) once(ctx context.Context) error {
	sub, err := s.Source.Open(ctx, Session{
		Identity: s.env.Identity, Token: s.env.Start.Token, InFlight: s.InFlight, Checkpoint: s.env.Lease,
		Expand: s.env.Expand, Trouble: s.health.source, Log: s.env.Log,
	})
	if err != nil {
		if ctx.Err() == nil {
			s.behind(elect.Lag{}) // messages may pile up meanwhile
		}
		return fmt.Errorf("%s: %w", s.title, err)
	}
	s.env.Status.Running()
	s.opened()
	began := time.Now()
	watching, unwatch := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { s.watchLag(watching, sub) })
	beside.Go(func() { s.settle(watching) })
	f := newFeed(s, sub)
	err = f.loop(ctx)
	for _, item := range f.flow.Failing() {
		s.past[item.Message.Unique()] = item.Past
	}
	unwatch()
	beside.Wait()
	closing, cancel := context.WithTimeout(s.work, closeTimeout)
	defer cancel()
	if closed := sub.Close(closing); closed != nil { //nolint:contextcheck // as deliveries do
		s.env.Log.V(1).Info("A subscription did not close in order", "reason", closed.Error())
	}
	s.health.message(nil)
	if err != nil {
		s.breaks.ended(time.Since(began), err)
		return fmt.Errorf("%s: %w", s.title, err)
	}
	return nil
}

package subscribe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

const (
	// closeTimeout is how long a subscription or a receiver may take to close.
	closeTimeout = 5 * time.Second
	// leaseLook is how often the lease is looked at while nothing may be begun without it.
	leaseLook = 50 * time.Millisecond
)

// reconnect is the pause between two tries to open a subscription. Its longest is how late a new topic may be noticed.
var reconnect = tasks.Backoff{Initial: 100 * time.Millisecond, Max: 3 * time.Second}

var errGraceOver = errors.New("stop.timeout is over")

// Run subscribes and delivers for as long as ctx goes on. Asked to stop while the lease holds, it lets deliveries under
// way end within the task's stop.timeout, and acknowledges them. It also begins what they cannot be acknowledged
// without. After a lost lease it acknowledges nothing.
func (r Runner) Run(ctx context.Context, env taskrun.Env) tasks.Ending {
	topic, err := env.Expand(r.Kind(), r.Source.Topic())
	if err != nil {
		return tasks.NotStarted(ctx, err)
	}
	deadLetters, err := env.Expand("retry.deadLetter.topic", r.Retry.DeadLetter)
	if err != nil {
		return tasks.NotStarted(ctx, err)
	}
	title := r.Kind() + ":" + topic
	r.InFlight = cmp.Or(r.InFlight, DefaultInFlight)
	receiver, err := r.Sink.Open(ctx, env, title)
	if err != nil {
		return tasks.NotStarted(ctx, err)
	}
	work, end := workContext(ctx, env)
	defer end()
	s := &run{
		Runner: r, env: env, work: work, receiver: receiver, title: title, deadLetters: deadLetters,
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
func workContext(ctx context.Context, env taskrun.Env) (work context.Context, end func()) {
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
	env         taskrun.Env
	work        context.Context // of deliveries and acknowledgements; it outlives the request to stop
	receiver    Receiver
	title       string // kind and topic
	deadLetters string // topic for dead letters
	health      *health
	breaks      breaks
	lag         elect.Lag            // as it was said last
	past        map[string]flow.Past // of messages that failed before the subscription was opened again
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
		_ = clock.Sleep(ctx, reconnect.Delay(failures)) // the loop looks at ctx
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
	beside.Go(func() { s.clearBreaks(watching) })
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
		s.env.Log.V(1).Info("A subscription did not close cleanly", "reason", closed.Error())
	}
	s.health.message(nil)
	if err != nil {
		s.breaks.ended(time.Since(began), err)
		return fmt.Errorf("%s: %w", s.title, err)
	}
	return nil
}

const (
	// steady is how long a subscription must have been open for the pause after its end to be short again.
	steady = time.Minute
	// restless is how many times an open subscription breaks, none of them steady, until that is trouble of its own.
	// Else two clients that take a session from each other would each be well whenever it is looked at.
	restless = 3
)

// breaks are the ends of a subscription that had been opened.
type breaks struct {
	count int   // without a steady one between
	last  error // why
}

// ended notes why a subscription that was open has ended.
func (b *breaks) ended(after time.Duration, err error) {
	if after >= steady {
		b.count = 0
	}
	b.count++
	b.last = err
}

// opened says that the subscription is open. One that keeps breaking is in trouble until it has been open for long.
func (s *run) opened() {
	if s.breaks.count >= restless {
		s.health.connection(fmt.Errorf("%s: keeps breaking soon after it is opened: %w", s.title, s.breaks.last))
		return
	}
	if s.health.connection(nil) {
		s.env.Log.Info("The subscription is open again", "token", s.env.Start.Token)
	}
}

// clearBreaks takes back what opened has said of breaks once the subscription has been open for long. It returns when
// ctx has ended.
func (s *run) clearBreaks(ctx context.Context) {
	if s.breaks.count < restless {
		return
	}
	if _ = clock.Sleep(ctx, steady); ctx.Err() == nil {
		s.breaks.count = 0
		s.opened()
	}
}

// health is what is wrong with a subscription. It passes on the first of what is wrong, when that has changed. Its
// methods may be called concurrently.
type health struct {
	status taskrun.Status

	mu    sync.Mutex
	wrong [3]error // the connection, what the source says, a message
	shown string
}

func newHealth(status taskrun.Status) *health { return &health{status: status} }

// connection says why the subscription is not open; nil: it is. It says whether that is news.
func (h *health) connection(err error) (news bool) { return h.set(0, err) }

// source notes what the source itself says.
func (h *health) source(err error) { h.set(1, err) }

// message says which message is not delivered, and why.
func (h *health) message(err error) { h.set(2, err) }

func (h *health) set(i int, err error) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	news = errorText(h.wrong[i]) != errorText(err)
	h.wrong[i] = err
	var first error
	for _, err := range h.wrong {
		if err != nil {
			first = err
			break
		}
	}
	if now := errorText(first); now != h.shown {
		h.shown = now
		h.status.Trouble(first)
	}
	return news
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

const (
	// lagEvery is how often a broker is asked for the lag, and lagTimeout how long it may take to answer. It is asked
	// after lagFirst, as the first deliveries of all that moved at once go before.
	lagFirst   = time.Second
	lagEvery   = 10 * time.Second
	lagTimeout = 5 * time.Second
)

// watchLag says how far the subscription is behind, until ctx ends. The broker is asked also while it gives nothing: a
// partition may be silent while messages pile up in it. A lag that it does not report is not known.
func (s *run) watchLag(ctx context.Context, sub Subscription) {
	lagging, ok := sub.(Lagging)
	if !ok {
		return
	}
	_ = clock.Sleep(ctx, lagFirst)
	for ctx.Err() == nil {
		asking, cancel := context.WithTimeout(ctx, lagTimeout)
		lag, err := lagging.Lag(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		now := lagOf(lag)
		if err != nil {
			now = elect.Lag{}
			s.env.Log.V(1).Info("The lag is not known", "reason", err.Error())
		}
		s.behind(now)
		_ = clock.Sleep(ctx, lagEvery)
	}
}

// behind says how far the subscription is behind, where that is news.
func (s *run) behind(now elect.Lag) {
	if noticeable(s.lag, now) {
		s.lag = now
		s.env.Status.Lag(now)
	}
}

// lagOf is a lag as statuses have it.
func lagOf(lag Lag) elect.Lag {
	seconds := int64(-1)
	if lag.Seconds >= 0 {
		seconds = int64(math.Ceil(lag.Seconds))
	}
	return elect.Lag{Known: true, Messages: max(-1, lag.Messages), Seconds: seconds}
}

// noticeable says whether a lag is worth a write: it began or ended, or changed by half.
func noticeable(said, now elect.Lag) bool {
	far := func(a, b int64) bool {
		return a != b && (a <= 0 || b <= 0 || 2*a > 3*b || 2*b > 3*a)
	}
	return said.Known != now.Known || far(said.Messages, now.Messages) ||
		far(said.Seconds/lagSteps, now.Seconds/lagSteps)
}

// lagSteps are the seconds below which two ages count as the same.
const lagSteps = 10

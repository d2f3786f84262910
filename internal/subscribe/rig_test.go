package subscribe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/fakehold"
)

// line is a topic with one partition, in memory. It is a source, and what it opens.
type line struct {
	mu       sync.Mutex
	all      []subscribe.Message
	acked    int
	letters  []string // ID:attempts
	refuse   error    // of Open
	breakAt  int      // Receive fails once when so many were given; 0: never
	opened   int
	slow     time.Duration // that Ack takes
	silent   bool          // Receive gives nothing
	broken   chan error    // ends Receive
	lagErr   error         // of Lag
	more     chan struct{}
	position int
}

func newLine(n int) *line {
	l := &line{more: make(chan struct{}, 1)}
	for i := range n {
		l.all = append(l.all, subscribe.Message{ID: fmt.Sprintf("m%d", i), Key: []byte{byte('a' + i%2)}, Ref: i})
	}
	return l
}

func (l *line) Kind() string                  { return "line" }
func (l *line) Topic() string                 { return "t" }
func (l *line) Validate() []decode.FieldError { return nil }
func (l *line) Print() decode.Fields          { return nil }

func (l *line) Open(context.Context, subscribe.Session) (subscribe.Subscription, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened++
	if l.refuse != nil {
		return nil, l.refuse
	}
	l.position = l.acked
	return l, nil
}

func (l *line) Receive(ctx context.Context, most int) ([]subscribe.Message, error) {
	l.mu.Lock()
	if l.breakAt > 0 && l.position >= l.breakAt {
		l.breakAt = 0
		l.mu.Unlock()
		return nil, errors.New("connection reset")
	}
	given := l.all[l.position:min(len(l.all), l.position+most)]
	if l.silent {
		given = nil
	}
	l.position += len(given)
	l.mu.Unlock()
	if len(given) > 0 {
		return given, nil
	}
	select {
	case err := <-l.broken:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *line) Ack(ctx context.Context, messages []subscribe.Message) error {
	select {
	case <-time.After(l.slow):
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range messages {
		if m.Ref.(int) != l.acked {
			return fmt.Errorf("acknowledged %s after %d", m.ID, l.acked)
		}
		l.acked++
	}
	return nil
}

func (l *line) Cumulative() bool { return true }

func (l *line) DeadLetter(_ context.Context, to string, m subscribe.Message, why subscribe.Why) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.letters = append(l.letters, fmt.Sprintf("%s:%s:%d", to, m.ID, why.Attempts))
	return nil
}

func (l *line) Lag(context.Context) (subscribe.Lag, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return subscribe.Lag{Messages: int64(len(l.all) - l.acked), Seconds: 1.4}, l.lagErr
}

func (l *line) Close(context.Context) error { return nil }

func (l *line) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked
}

// worker is a sink: it works on each message as work says.
type worker struct {
	work  func(ctx context.Context, d subscribe.Delivery) error
	batch int

	mu    sync.Mutex
	seen  []string
	most  int
	going int
}

func (w *worker) Kind() string                          { return "worker" }
func (w *worker) Validate(kind.Use) []decode.FieldError { return nil }
func (w *worker) Print(kind.Use) any                    { return "" }
func (w *worker) Batch() int                            { return max(1, w.batch) }
func (w *worker) Close(context.Context) error           { return nil }

func (w *worker) Open(context.Context, taskrun.Env, string) (subscribe.Receiver, error) {
	return w, nil
}

func (w *worker) Deliver(ctx context.Context, deliveries []subscribe.Delivery) []error {
	w.mu.Lock()
	w.going += len(deliveries)
	w.most = max(w.most, w.going)
	w.mu.Unlock()
	errs := make([]error, len(deliveries))
	for i, d := range deliveries {
		w.mu.Lock()
		w.seen = append(w.seen, d.ID)
		w.mu.Unlock()
		if w.work != nil {
			errs[i] = w.work(ctx, d)
		}
	}
	w.mu.Lock()
	w.going -= len(deliveries)
	w.mu.Unlock()
	return errs
}

func (w *worker) order() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// says is a status. It implements taskrun.Status.
type says struct {
	mu      sync.Mutex
	trouble []string
	lags    []elect.Lag
}

func (*says) Running() {}

func (s *says) Trouble(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = append(s.trouble, fmt.Sprint(err))
}

func (s *says) Lag(lag elect.Lag) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lags = append(s.lags, lag)
}

func (s *says) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.trouble, "\n")
}

type rig struct {
	hold *fakehold.Hold
	says *says
	stop context.CancelCauseFunc
	done chan tasks.Ending
}

// start runs a subscription in the bubble of the test.
func start(t *testing.T, r subscribe.Runner) rig {
	t.Helper()
	task := tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}}
	ctx, cancel := context.WithCancelCause(t.Context())
	x := rig{hold: fakehold.New(task.Key()), says: &says{}, stop: cancel, done: make(chan tasks.Ending, 1)}
	env := taskrun.Env{
		Identity: task.Identity, Start: tasks.Start{Token: 7}, Grace: 3 * time.Second, Lease: x.hold,
		Host:   taskrun.Host{T: 20 * time.Second, Environ: func() []string { return nil }},
		Status: x.says, Log: testr.New(t),
	}
	if r.InFlight == 0 {
		r.InFlight = 1
	}
	r.Retry.Backoff = tasks.Backoff{Initial: 100 * time.Millisecond, Max: time.Second}
	go func() { x.done <- r.Run(ctx, env) }()
	t.Cleanup(func() { cancel(elect.ErrReleased) })
	return x
}

func sorted(ids []string) bool {
	return slices.IsSortedFunc(ids, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
}

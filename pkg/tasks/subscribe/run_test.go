package subscribe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/fakehold"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/subscribetest/memsource"
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

func (w *worker) Kind() string                           { return "worker" }
func (w *worker) Validate(tasks.Use) []decode.FieldError { return nil }
func (w *worker) Print(tasks.Use) any                    { return "" }
func (w *worker) Batch() int                             { return max(1, w.batch) }
func (w *worker) Close(context.Context) error            { return nil }

func (w *worker) Open(context.Context, tasks.Env, subscribe.Limits) (subscribe.Receiver, error) {
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

// says is a status. It implements tasks.Status.
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
	task := tasks.Task{Group: "g", Name: "n"}
	ctx, cancel := context.WithCancelCause(t.Context())
	x := rig{hold: fakehold.New(task.Key()), says: &says{}, stop: cancel, done: make(chan tasks.Ending, 1)}
	env := tasks.Env{
		Identity: task.Identity(), Start: tasks.Start{Token: 7}, T: 20 * time.Second, Grace: 3 * time.Second,
		Lease:  x.hold,
		Status: x.says, Environ: func() []string { return nil }, Log: testr.New(t),
	}
	if r.InFlight == 0 {
		r.InFlight = 1
	}
	r.Retry.Backoff = tasks.Backoff{Initial: 100 * time.Millisecond, Max: time.Second}
	go func() { x.done <- r.Run(ctx, env) }()
	t.Cleanup(func() { cancel(elect.ErrReleased) })
	return x
}

func TestMessagesAreDeliveredOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, w := newLine(20), &worker{}
		x := start(t, subscribe.Runner{Source: l, Sink: w})
		time.Sleep(time.Second)
		synctest.Wait()
		if l.count() != 20 || w.most != 1 || len(w.order()) != 20 || !sorted(w.order()) {
			t.Errorf("%d acknowledged, %d at once, order %v", l.count(), w.most, w.order())
		}
		x.stop(elect.ErrReleased)
		if end := <-x.done; end.Err != nil || !end.Cut {
			t.Errorf("ended with %+v", end)
		}
	})
}

func sorted(ids []string) bool {
	return slices.IsSortedFunc(ids, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
}

func TestSeveralInFlightKeepTheOrderOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := map[string]int{"m2": 3}
		var mu sync.Mutex
		w := &worker{work: func(_ context.Context, d subscribe.Delivery) error {
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if fail[d.ID] > 0 {
				fail[d.ID]--
				return errors.New("not now")
			}
			return nil
		}}
		l := newLine(20)
		x := start(t, subscribe.Runner{Source: l, Sink: w, InFlight: 8})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if l.count() != 20 || w.most != 2 {
			t.Errorf("%d acknowledged, %d at once", l.count(), w.most)
		}
		first := map[string]bool{}
		for _, key := range []int{0, 1} {
			last := -1
			for _, id := range w.order() {
				var n int
				_, _ = fmt.Sscanf(id, "m%d", &n)
				if n%2 != key || first[id] {
					continue
				}
				if first[id] = true; n < last {
					t.Errorf("%s came after m%d", id, last)
				}
				last = n
			}
		}
		if !strings.Contains(x.says.all(), "message m2 was not worked on, attempt 3: not now") ||
			!strings.HasSuffix(x.says.all(), "<nil>") {
			t.Errorf("said %s", x.says.all())
		}
	})
}

func TestPoisonBecomesADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{work: func(_ context.Context, d subscribe.Delivery) error {
			if d.ID == "m1" {
				return errors.New("never")
			}
			return nil
		}}
		l := newLine(4)
		start(t, subscribe.Runner{Source: l, Sink: w, Retry: subscribe.Retry{Attempts: 3, DeadLetter: "dead"}})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got := strings.Join(w.order(), " "); l.count() != 4 || got != "m0 m1 m1 m1 m2 m3" { //nolint:dupword // it is tried three times
			t.Errorf("%d acknowledged, delivered %s", l.count(), got)
		}
		if got := strings.Join(l.letters, " "); got != "dead:m1:3" {
			t.Errorf("dead letters %s", got)
		}
	})
}

// A message that its receiver will never take is a dead letter after one attempt. Without dead letters it is tried as
// often as others.
func TestRejectedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{work: func(_ context.Context, d subscribe.Delivery) error {
			if d.ID == "m1" {
				return subscribe.Rejected(errors.New("never"))
			}
			return nil
		}}
		l := newLine(4)
		start(t, subscribe.Runner{Source: l, Sink: w, Retry: subscribe.Retry{Attempts: 8, DeadLetter: "dead"}})
		time.Sleep(time.Second)
		synctest.Wait()
		if got := strings.Join(w.order(), " "); l.count() != 4 || got != "m0 m1 m2 m3" {
			t.Errorf("%d acknowledged, delivered %s", l.count(), got)
		}
		if got := strings.Join(l.letters, " "); got != "dead:m1:1" {
			t.Errorf("dead letters %s", got)
		}
		l = newLine(4)
		x := start(t, subscribe.Runner{Source: l, Sink: w, Retry: subscribe.Retry{Attempts: 3}})
		if end := <-x.done; !errors.Is(end.Err, subscribe.ErrStop) ||
			!strings.Contains(end.Err.Error(), "in 3 attempts") {
			t.Errorf("ended with %+v", end)
		}
	})
}

// A message that fails for ever, in one of three partitions, delays what its order has wait for it, and nothing else.
func TestPoisonDelaysWhatItsOrderSays(t *testing.T) {
	for _, c := range []struct {
		order    string
		inFlight int
		want     int // messages worked on of the partition with the poison, of 20 of two keys
	}{
		{subscribe.OrderPartition, 1, 0},
		{subscribe.OrderPartition, 8, 0},
		{subscribe.OrderKey, 8, 4},
		{"", 8, 4},
		{subscribe.OrderNone, 8, 7},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.order, c.inFlight), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := memsource.New()
				b.Create("orders", 3)
				var mu sync.Mutex
				poison := ""
				done := map[string]int{} // by partition
				w := &worker{work: func(_ context.Context, d subscribe.Delivery) error {
					mu.Lock()
					defer mu.Unlock()
					if poison == "" {
						poison = d.Partition
					}
					if d.Partition == poison && strings.HasSuffix(d.ID, "/0") {
						return errors.New("never")
					}
					done[d.Partition]++
					return nil
				}}
				start(t, subscribe.Runner{Source: fromOrders(b), Sink: w, InFlight: c.inFlight, Order: c.order})
				publishKeys(t, b)
				time.Sleep(time.Minute)
				synctest.Wait()
				total := 0
				for _, n := range done {
					total += n
				}
				if others := total - done[poison]; done[poison] != c.want || others != 40 {
					t.Errorf("%d of the poison's partition were worked on, and %d of others: want %d and 40",
						done[poison], others,
						c.want)
				}
			})
		})
	}
}

// publishKeys publishes 20 messages to each of three partitions, of two keys in turn.
func publishKeys(t *testing.T, b *memsource.Broker) {
	t.Helper()
	keys := map[string][]string{} // of partitions
	for n := 0; len(keys) < 3 || len(keys["0"]) < 2 || len(keys["1"]) < 2 || len(keys["2"]) < 2; n++ {
		key := fmt.Sprint("k", n)
		p := b.PartitionOf("orders", []byte(key))
		keys[p] = append(keys[p], key)
	}
	for _, of := range keys {
		for i := range 20 {
			if err := b.Publish("orders", subscribe.Message{Key: []byte(of[i%2])}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A receiver that asks to wait is not asked before, nor is it waited for longer than retry.backoff.max.
func TestRetryAfter(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		700 * time.Millisecond: 700 * time.Millisecond, time.Hour: time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			var at []time.Time
			w := &worker{work: func(context.Context, subscribe.Delivery) error {
				if at = append(at, time.Now()); len(at) == 1 {
					return subscribe.RetryAfter(errors.New("not now"), asked)
				}
				return nil
			}}
			start(t, subscribe.Runner{Source: newLine(1), Sink: w})
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(at) != 2 || at[1].Sub(at[0]) != want {
				t.Errorf("asked to wait %s: delivered at %v, want again after %s", asked, at, want)
			}
		})
	}
}

func TestPoisonWithoutDeadLettersStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{work: func(_ context.Context, d subscribe.Delivery) error {
			if d.ID == "m1" {
				return errors.New("never")
			}
			return nil
		}}
		l := newLine(4)
		x := start(t, subscribe.Runner{Source: l, Sink: w, Retry: subscribe.Retry{Attempts: 2}})
		end := <-x.done
		if !end.Final || !end.ByItself || !errors.Is(end.Err, subscribe.ErrStop) ||
			!strings.Contains(end.Err.Error(), "message m1 was not worked on in 2 attempts") {
			t.Errorf("ended with %+v", end)
		}
		if l.count() != 1 {
			t.Errorf("%d acknowledged, want the one before it", l.count())
		}
	})
}

func TestStopFinishesWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{work: func(context.Context, subscribe.Delivery) error { time.Sleep(time.Second); return nil }}
		l := newLine(4)
		l.slow = 500 * time.Millisecond
		x := start(t, subscribe.Runner{Source: l, Sink: w})
		time.Sleep(2 * time.Second) // m0 is acknowledged at 1.5 s, m1 is under way until 2.5 s
		x.stop(elect.ErrReleased)
		began := time.Now()
		<-x.done
		if took := time.Since(began); took != time.Second || l.count() != 2 || len(w.order()) != 2 {
			t.Errorf("after %s %d of %v were acknowledged", took, l.count(), w.order())
		}
	})
}

func TestStopEndsWithTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{work: func(ctx context.Context, _ subscribe.Delivery) error { <-ctx.Done(); return context.Cause(ctx) }}
		l := newLine(4)
		x := start(t, subscribe.Runner{Source: l, Sink: w})
		time.Sleep(time.Second)
		x.stop(elect.ErrReleased)
		began := time.Now()
		<-x.done
		if took := time.Since(began); took != 3*time.Second || l.count() != 0 {
			t.Errorf("ended after %s, %d acknowledged", took, l.count())
		}
	})
}

func TestNothingIsAcknowledgedAfterTheLease(t *testing.T) {
	for name, lose := range map[string]func(x rig){
		"lost":                func(x rig) { x.stop(elect.ErrLeaseLost) },
		"run out":             func(x rig) { x.hold.Freeze(0) },
		"run out, then asked": func(x rig) { x.hold.Freeze(0); x.stop(elect.ErrReleased) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &worker{work: func(context.Context, subscribe.Delivery) error { time.Sleep(time.Second); return nil }}
				l := newLine(4)
				x := start(t, subscribe.Runner{Source: l, Sink: w})
				time.Sleep(1500 * time.Millisecond) // m0 is acknowledged, m1 is under way
				lose(x)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				x.stop(elect.ErrReleased)
				<-x.done
				if l.count() != 1 {
					t.Errorf("%d acknowledged, want the one before the lease ended", l.count())
				}
			})
		})
	}
}

func TestBrokenSubscriptionIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := &worker{}, newLine(10)
		l.breakAt = 5
		x := start(t, subscribe.Runner{Source: l, Sink: w})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if l.count() != 10 || l.opened != 2 || !sorted(slices.Compact(w.order())) {
			t.Errorf("%d acknowledged, opened %d times, order %v", l.count(), l.opened, w.order())
		}
		if got := x.says.all(); !strings.Contains(got, "line:t: connection reset") || !strings.HasSuffix(got, "<nil>") {
			t.Errorf("said %s", got)
		}
	})
}

func TestWhatCannotBeOpenedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := &worker{}, newLine(3)
		l.refuse = errors.New("no such topic")
		x := start(t, subscribe.Runner{Source: l, Sink: w})
		time.Sleep(time.Minute)
		synctest.Wait()
		l.mu.Lock()
		tries := l.opened
		l.refuse = nil
		l.mu.Unlock()
		if tries < 10 || tries > 60 || x.says.all() != "line:t: no such topic" {
			t.Errorf("%d tries, said %s", tries, x.says.all())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if l.count() != 3 {
			t.Errorf("%d acknowledged", l.count())
		}
	})
}

func TestWhatMustNotGoOnEndsTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(3)
		l.refuse = fmt.Errorf("%w: the checkpoint is gone", subscribe.ErrStop)
		x := start(t, subscribe.Runner{Source: l, Sink: &worker{}})
		if end := <-x.done; !end.Final || !errors.Is(end.Err, subscribe.ErrStop) {
			t.Errorf("ended with %+v", end)
		}
	})
}

func TestBatchesFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sizes := map[int]int{}
		var mu sync.Mutex
		w := &worker{batch: 4}
		w.work = func(context.Context, subscribe.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			sizes[w.going]++
			return nil
		}
		l := newLine(40)
		start(t, subscribe.Runner{Source: l, Sink: w, InFlight: 4})
		time.Sleep(time.Second)
		synctest.Wait()
		if l.count() != 40 || sizes[4] < 20 {
			t.Errorf("%d acknowledged, batches %v", l.count(), sizes)
		}
	})
}

func TestLagIsSaidWhereItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(40)
		w := &worker{work: func(context.Context, subscribe.Delivery) error { time.Sleep(time.Second); return nil }}
		x := start(t, subscribe.Runner{Source: l, Sink: w})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		x.says.mu.Lock()
		defer x.says.mu.Unlock()
		var counts []int64
		for _, lag := range x.says.lags {
			counts = append(counts, lag.Messages)
		}
		if n := len(counts); n < 3 || n > 9 || counts[0] < 30 || counts[n-1] != 0 {
			t.Errorf("said %v while 40 messages went", counts)
		}
	})
}

// A broker that gives nothing for long may have messages all the same. One that does not answer, or is away, says
// nothing of them.
func TestLagOfABrokerThatGivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(40)
		l.silent, l.broken = true, make(chan error)
		x := start(t, subscribe.Runner{Source: l, Sink: &worker{}})
		expect := func(when string, want elect.Lag) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			x.says.mu.Lock()
			defer x.says.mu.Unlock()
			if n := len(x.says.lags); n == 0 || x.says.lags[n-1] != want {
				t.Errorf("%s: said %+v, want %+v last", when, x.says.lags, want)
			}
		}
		fail := func(lag, open error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.lagErr, l.refuse = lag, open
		}
		all := elect.Lag{Known: true, Messages: 40, Seconds: 2}
		expect("silent", all)
		fail(errors.New("no leader"), nil)
		expect("no answer", elect.Lag{})
		fail(nil, nil)
		expect("answers again", all)
		fail(nil, errors.New("no broker"))
		l.broken <- errors.New("connection reset")
		expect("away", elect.Lag{})
		fail(nil, nil)
		expect("back", all)
	})
}

package subscribe_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest/memsource"
	"github.com/shardctl/shardctl/pkg/elect"
)

const (
	simMessages   = 200
	simPartitions = 3
)

// life is a subscription that changes owners while its broker has trouble. All times are those of a bubble.
type life struct {
	random *rand.Rand // of the test's goroutine
	broker *memsource.Broker
	runner subscribe.Runner
	breaks int  // cuts, blocks and lost leases: each may have what is in flight delivered again
	calm   bool // the receiver refuses nothing

	mu      sync.Mutex
	fails   *rand.Rand
	first   map[string]int // number of the last message of a lane, by first deliveries
	seen    map[string]bool
	worked  map[string]int // how often a message was worked on
	wrong   []string
	going   int
	busiest int
}

func newLife(seed uint64) *life {
	l := &life{
		random: rand.New(rand.NewPCG(seed, 1)), fails: rand.New(rand.NewPCG(seed, 2)), broker: memsource.New(),
		first: map[string]int{}, seen: map[string]bool{}, worked: map[string]int{},
	}
	l.broker.Create("orders", simPartitions)
	l.broker.Create("dead", 1)
	source := fromOrders(l.broker)
	source.Single = seed%2 == 0
	l.runner = subscribe.Runner{
		Source: source, Sink: &worker{work: l.work, batch: 1 + int(seed/2%2)*3}, InFlight: []int{1, 2, 8}[seed%3],
		Order: []string{"", subscribe.OrderNone, subscribe.OrderPartition}[seed/4%3],
		Retry: subscribe.Retry{Attempts: 3, DeadLetter: "dead"},
	}
	return l
}

// work takes its time, refuses poison, and now and then what could be worked on.
func (l *life) work(ctx context.Context, d subscribe.Delivery) error {
	var n int
	_, _ = fmt.Sscan(string(d.Body), &n)
	l.begin(d, n)
	select {
	case <-time.After(time.Duration(2+n*n%7*5) * time.Millisecond): // some take long, others do not
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.going--
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case l.calm:
	case d.Headers["poison"] != "":
		return errors.New("poison")
	case d.Attempt < 3 && l.fails.IntN(20) == 0:
		return errors.New("not now")
	}
	l.worked[d.ID]++
	return nil
}

func (l *life) begin(d subscribe.Delivery, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.going++
	l.busiest = max(l.busiest, l.going)
	if l.seen[d.ID] {
		return
	}
	l.seen[d.ID] = true
	lane := d.Partition
	switch {
	case l.runner.InFlight == 1 || l.runner.Order == subscribe.OrderPartition:
	case l.runner.Order == subscribe.OrderNone:
		return
	default:
		lane += string(d.Key)
	}
	if last, ok := l.first[lane]; ok && n < last {
		l.wrong = append(l.wrong, fmt.Sprintf("message %d came first after %d, in lane %s", n, last, lane))
	}
	l.first[lane] = n
}

// send publishes messages, one in fifty of them poison.
func (l *life) send(t *testing.T) {
	t.Helper()
	for n := range simMessages {
		m := subscribe.Message{Key: []byte{byte('a' + n%7)}, Body: fmt.Append(nil, n)}
		if n%50 == 7 {
			m.Headers = map[string]string{"poison": "yes"}
		}
		if err := l.broker.Publish("orders", m); err != nil {
			t.Error(err)
		}
		if n%20 == 0 && !l.calm {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// live has trouble until all is acknowledged.
func (l *life) live(t *testing.T) {
	t.Helper()
	var sending sync.WaitGroup
	sending.Go(func() { l.send(t) })
	defer sending.Wait()
	x := start(t, l.runner)
	for range 25 {
		time.Sleep(time.Duration(l.random.IntN(400)) * time.Millisecond)
		switch l.random.IntN(5) {
		case 0:
			l.breaks++
			l.broker.Cut()
		case 1:
			l.breaks++
			l.broker.Block()
			time.Sleep(time.Duration(l.random.IntN(15)) * time.Second)
			l.broker.Unblock()
		case 2:
			l.breaks++
			x = l.nextOwner(t, x, elect.ErrLeaseLost)
		default:
			x = l.nextOwner(t, x, elect.ErrReleased)
		}
	}
	for began := time.Now(); l.broker.Acked("orders", "g/n") < simMessages; time.Sleep(time.Second) {
		if time.Since(began) > time.Hour {
			t.Fatalf("%d of %d messages are acknowledged an hour after the last trouble",
				l.broker.Acked("orders", "g/n"), simMessages)
		}
	}
	x.stop(elect.ErrReleased)
	<-x.done
}

func (l *life) nextOwner(t *testing.T, x rig, cause error) rig {
	t.Helper()
	x.stop(cause)
	if end := <-x.done; end.Err != nil || end.Final {
		t.Errorf("a run that was stopped ended with %+v", end)
	}
	return start(t, l.runner)
}

// judge says what went wrong in all.
func (l *life) judge(t *testing.T) {
	t.Helper()
	for _, wrong := range l.wrong {
		t.Error(wrong)
	}
	if l.busiest > l.runner.InFlight {
		t.Errorf("%d messages were being worked on at once, maxInFlight is %d", l.busiest, l.runner.InFlight)
	}
	dead := map[string]bool{}
	for _, m := range letters(t, l.broker) {
		dead[m.Headers["Shardctl-Dead-Id"]] = true
	}
	again := 0
	for id := range l.seen {
		if l.worked[id] == 0 && !dead[id] {
			t.Errorf("%s was acknowledged, and neither worked on nor made a dead letter", id)
		}
		again += max(0, l.worked[id]-1)
	}
	poison := simMessages / 50
	if l.calm {
		poison = 0
	}
	if len(l.seen) != simMessages || len(dead) != poison {
		t.Errorf("%d messages were delivered and %d are dead letters, want %d and %d", len(l.seen), len(dead),
			simMessages,
			poison)
	}
	one := l.runner.Sink.(*worker).Batch() == 1 // a batch in which one has failed comes again
	if most := simPartitions * l.runner.InFlight * l.breaks; one && again > most {
		t.Errorf("%d messages were worked on again, want at most maxInFlight %d of each partition for each of %d breaks",
			again, l.runner.InFlight, l.breaks)
	}
}

// TestLives plays many lives: no message is lost, first deliveries keep their order, and few are delivered again.
func TestLives(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			l := newLife(seed)
			synctest.Test(t, l.live)
			l.judge(t)
		})
	}
}

// TestOrderlyLivesRepeatNothing: where owners only change in order, each message is worked on once.
func TestOrderlyLivesRepeatNothing(t *testing.T) {
	for seed := range uint64(12) {
		l := newLife(seed)
		l.calm = true
		synctest.Test(t, func(t *testing.T) {
			var sending sync.WaitGroup
			sending.Go(func() { l.send(t) })
			x := start(t, l.runner)
			for l.broker.Acked("orders", "g/n") < simMessages {
				time.Sleep(37 * time.Millisecond)
				x = l.nextOwner(t, x, elect.ErrReleased)
			}
			sending.Wait()
			x.stop(elect.ErrReleased)
			<-x.done
		})
		l.judge(t)
	}
}

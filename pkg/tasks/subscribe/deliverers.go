package subscribe

import (
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/flow"
)

// deliverers are the goroutines that have work done. There are as many as there is work at once, and they are used
// again until rest. One goroutine owns them.
type deliverers struct {
	deliver func(flow.Work[Message]) []error
	todo    chan flow.Work[Message]
	running int // goroutines
	busy    int // works begun and not taken
	all     sync.WaitGroup

	// Bell has a value whenever there may be something to take.
	bell chan struct{}
	mu   sync.Mutex
	done []finished
}

type finished struct {
	work flow.Work[Message]
	errs []error
}

func newDeliverers(deliver func(flow.Work[Message]) []error) *deliverers {
	return &deliverers{deliver: deliver, todo: make(chan flow.Work[Message]), bell: make(chan struct{}, 1)}
}

// begin has work done. It returns at once: there is a goroutine that waits for it, or is about to.
func (d *deliverers) begin(w flow.Work[Message]) {
	d.busy++
	if d.busy > d.running {
		d.running++
		todo := d.todo
		d.all.Go(func() { d.serve(todo) })
	}
	d.todo <- w
}

func (d *deliverers) serve(todo <-chan flow.Work[Message]) {
	for w := range todo {
		errs := d.deliver(w)
		d.mu.Lock()
		d.done = append(d.done, finished{w, errs})
		d.mu.Unlock()
		select {
		case d.bell <- struct{}{}:
		default: // it has rung already
		}
	}
}

// take is what has ended since the last call.
func (d *deliverers) take() []finished {
	d.mu.Lock()
	defer d.mu.Unlock()
	done := d.done
	d.done = nil
	d.busy -= len(done)
	return done
}

// rest ends the goroutines when none has work. Their stacks would be kept for nothing.
func (d *deliverers) rest() {
	if d.busy == 0 && d.running > 0 {
		close(d.todo)
		d.todo, d.running = make(chan flow.Work[Message]), 0
	}
}

// end ends the goroutines, and returns when all have ended.
func (d *deliverers) end() {
	close(d.todo)
	d.all.Wait()
}

// The least time between two calls of KeepDelivered, but for the last. It doubles while messages fail.
const (
	keepPause = time.Second
	keepMost  = 30 * time.Second
)

// mostKept is how many messages of a partition have their attempts kept: those that were tried most often.
const mostKept = 16

// keeper decides when attempts are kept. The feed's goroutine owns it.
type keeper struct {
	sub     Keeping // nil: attempts are not kept
	counted int     // failures that had counted when attempts were kept
	at      time.Time
	pause   time.Duration
}

// unkept says that failures have counted since attempts were kept.
func (k *keeper) unkept(counted int) bool { return k.sub != nil && k.counted < counted }

// take says when attempts are to be kept; at once where that is now. Zero: they are kept.
func (k *keeper) take(counted int, ending bool, now time.Time) (due time.Time) {
	switch {
	case !k.unkept(counted):
		return time.Time{}
	case !ending && now.Before(k.at):
		return k.at
	}
	k.counted = counted
	k.pause = min(max(2*k.pause, keepPause), keepMost)
	k.at = now.Add(k.pause)
	return now
}

// failed has attempts kept again that were not.
func (k *keeper) failed() { k.counted = -1 }

// calm says that no message is failing any more.
func (k *keeper) calm() { k.pause = 0 }

// attempts are the failing messages whose attempts are to be kept. One that halted the flow is tried as often once the
// task is run again.
func attempts(failing []*flow.Item[Message], halted *flow.Item[Message]) (messages []Message) {
	items := slices.Clone(failing)
	slices.SortStableFunc(items, func(a, b *flow.Item[Message]) int { return b.Attempts() - a.Attempts() })
	of := map[string]int{}
	for _, item := range items {
		m := item.Message
		if of[m.Partition]++; of[m.Partition] > mostKept {
			continue
		}
		if m.Delivered = item.Attempts(); item == halted {
			m.Delivered = 0
		}
		messages = append(messages, m)
	}
	return messages
}

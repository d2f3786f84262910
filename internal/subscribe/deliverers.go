package subscribe

import (
	"sync"

	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
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

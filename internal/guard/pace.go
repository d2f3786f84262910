package guard

import (
	"fmt"
	"sync"
	"time"
)

// silentTicks is how many ticks of T/20 without a message count as the guard's end: T/4.
const silentTicks = 5

// pace watches whether the guard still speaks.
type pace struct {
	mu        sync.Mutex
	lease     time.Duration
	suspended bool // it said that it would be silent

	sign    chan struct{} // of life, from the guard
	changed chan struct{} // the lease has
}

func newPace() *pace {
	return &pace{lease: defaultLease, sign: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

func (p *pace) heard() {
	p.suspend(false)
	nudge(p.sign)
}

// suspend has silence count for nothing until the guard is heard again.
func (p *pace) suspend(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.suspended = yes
}

func (p *pace) mayBeSilent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suspended
}

func (p *pace) set(lease time.Duration) {
	p.mu.Lock()
	p.lease = lease
	p.mu.Unlock()
	nudge(p.changed)
}

func nudge(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// listen ends the connection when the guard is silent for T/4. Silence is counted in ticks of T/20 and not in time, so
// that a freeze of this process does not count against the guard. It returns with the connection's end.
func (p *pace) listen(conn *conn) {
	tick := time.NewTicker(p.tick())
	defer tick.Stop()
	silent := 0
	for {
		select {
		case <-p.sign:
			silent = 0
		case <-p.changed:
			silent = 0
			tick.Reset(p.tick())
		case <-tick.C:
			if silent++; p.mayBeSilent() {
				silent = 0
			}
			if silent >= silentTicks {
				conn.shut(fmt.Errorf("the guard was silent for %d ticks", silent))
				return
			}
		case <-conn.down:
			return
		}
	}
}

func (p *pace) tick() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.lease/20, time.Millisecond)
}

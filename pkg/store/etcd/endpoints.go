package etcd

import (
	"slices"
	"sync"
	"time"
)

// maxSuspicion bounds suspicion.
const maxSuspicion = 200 * time.Millisecond

// suspicion is how long a call must have waited in vain before its member counts as one that does not answer. A
// deadline that was shorter shows nothing. A short lease limits all its calls to less than maxSuspicion.
func suspicion(timeout time.Duration) time.Duration { return min(maxSuspicion, 3*timeout/4) }

// endpoints are the members that the URI names. One of them is used at a time.
type endpoints struct {
	all []string
	use func(endpoint string) // has calls go to another member from now on

	mu   sync.Mutex
	at   int
	left chan struct{} // closed when another member is used
}

func newEndpoints(all []string, at int) *endpoints {
	return &endpoints{all: slices.Clone(all), at: at, left: make(chan struct{})}
}

// current is the member in use, and a channel that is closed when it is no longer.
func (e *endpoints) current() (at int, left <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at, e.left
}

// leave goes on to the next member, unless somebody has left this one before. A single member is kept: its connection
// is made again by itself.
func (e *endpoints) leave(at int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.all) < 2 || e.at != at {
		return
	}
	e.at = (at + 1) % len(e.all)
	close(e.left)
	e.left = make(chan struct{})
	e.use(e.all[e.at])
}

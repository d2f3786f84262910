package tasks

import (
	"errors"
	"sync"

	"github.com/shardctl/shardctl/pkg/elect"
)

// runnable is the work of a key that the elector starts and stops. It implements [elect.Runnable].
type runnable struct {
	loop *loop
	mu   sync.Mutex
	held *held
}

// Start takes the task up.
func (r *runnable) Start(lease *elect.Lease, ended func(error)) {
	h := newHeld(lease, nil, func(err error) {
		if errors.Is(err, ErrDone) {
			lease.Suspend()
		}
		ended(err)
	})
	r.mu.Lock()
	r.held = h
	r.mu.Unlock()
	r.loop.begin(h)
}

// Stop has the task end.
func (r *runnable) Stop(cause error) {
	r.mu.Lock()
	h := r.held
	r.mu.Unlock()
	if h != nil {
		r.loop.stop(h, cause)
	}
}

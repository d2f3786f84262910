package dev

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/internal/guard"
)

// restartPause is longer than the lease. Its tasks then run elsewhere before a replica that lost it is back.
const restartPause = 3 * time.Second

// wait waits for a process. One that lost its lease is started again after a pause, under the same name: no one asked
// for its end. One that was killed, was asked to stop or found its configuration wrong stays away.
func (c *cluster) wait(r *replica) {
	_ = r.cmd.Wait() // ProcessState says the same and more
	c.mu.Lock()
	r.ended, r.state = time.Now(), r.cmd.ProcessState
	r.again = r.lapsed() && !r.stopped && !c.closed
	again := r.again
	c.mu.Unlock()
	close(r.done)
	if !again {
		return
	}
	pause := time.NewTimer(c.pause)
	defer pause.Stop()
	select {
	case <-c.ending:
	case <-pause.C:
		c.replace(r)
	}
}

// lapsed says whether a process that has ended lost its lease.
func (r *replica) lapsed() bool { return r.state.ExitCode() == guard.ExitLeaseLost }

// replace puts a new process in the place of one that has ended.
func (c *cluster) replace(r *replica) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	next, err := c.start(context.Background(), r.name)
	if err != nil {
		r.again, r.refused = false, err
		return
	}
	for i := range c.replicas {
		if c.replicas[i] == r {
			c.replicas[i] = next
		}
	}
}

// Package fakehold is a lease for tests: it is renewed for ever, unless it is frozen.
package fakehold

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Hold implements supervisor.Hold. Its methods may be called concurrently.
type Hold struct {
	key      elect.Key
	Duration time.Duration           // of the lease
	Fail     func(advance int) error // of the n-th Advance, from 1

	mu       sync.Mutex
	token    int64
	status   elect.TaskStatus
	reports  []elect.TaskStatus
	advances []elect.TaskStatus
	calls    int
	frozen   time.Time // the deadline, when it moves no more
	value    []byte
	writer   int64 // the largest token that has read or set it
}

// New makes a hold with a lease of 20 s and the token 7.
func New(key elect.Key) *Hold { return &Hold{key: key, Duration: 20 * time.Second, token: 7} }

// Key is the key.
func (h *Hold) Key() elect.Key { return h.key }

// Session is always "session-1".
func (h *Hold) Session() string { return "session-1" }

// Token is that of the last Advance.
func (h *Hold) Token() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token
}

// Valid says whether the deadline is ahead.
func (h *Hold) Valid() bool { return time.Now().Before(h.Deadline()) }

// Deadline is nine tenths of the lease away, until Freeze.
func (h *Hold) Deadline() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.frozen.IsZero() {
		return h.frozen
	}
	return time.Now().Add(h.Duration * 9 / 10)
}

// Freeze lets the lease run out.
func (h *Hold) Freeze(left time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frozen = time.Now().Add(left)
}

// SetStatus is what an earlier owner left.
func (h *Hold) SetStatus(s elect.TaskStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = s
}

// Status is what was reported last.
func (h *Hold) Status() elect.TaskStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status
}

// Report notes a status.
func (h *Hold) Report(s elect.TaskStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = s
	h.reports = append(h.reports, s)
}

// Advance notes a status and makes the token larger by 3, unless Fail says otherwise.
func (h *Hold) Advance(ctx context.Context, s elect.TaskStatus) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if h.Fail != nil {
		if err := h.Fail(h.calls); err != nil {
			return 0, err
		}
	}
	h.token += 3
	h.status = s
	h.advances = append(h.advances, s)
	h.reports = append(h.reports, s)
	return h.token, nil
}

// Value is what was set last.
func (h *Hold) Value(ctx context.Context) ([]byte, error) { return h.Checkpoint().Value(ctx) }

// SetValue keeps a value.
func (h *Hold) SetValue(ctx context.Context, value []byte) error {
	return h.Checkpoint().SetValue(ctx, value)
}

// Checkpoint is the value under the token of now.
func (h *Hold) Checkpoint() elect.Checkpoint { return checkpoint{h, h.Token()} }

// checkpoint is the value under one token.
type checkpoint struct {
	h     *Hold
	token int64
}

// Value is what was set last, fenced as package elect does it.
func (c checkpoint) Value(context.Context) ([]byte, error) {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if err := c.fence(); err != nil {
		return nil, err
	}
	return slices.Clone(c.h.value), nil
}

// SetValue keeps a value.
func (c checkpoint) SetValue(_ context.Context, value []byte) error {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if err := c.fence(); err != nil {
		return err
	}
	c.h.value = slices.Clone(value)
	return nil
}

func (c checkpoint) fence() error {
	if c.h.writer > c.token {
		return elect.ErrLeaseLost
	}
	c.h.writer = c.token
	return nil
}

// Reports are all statuses in order.
func (h *Hold) Reports() []elect.TaskStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.reports)
}

// States are the states reported, without repetitions.
func (h *Hold) States() []string {
	var states []string
	for _, s := range h.Reports() {
		if len(states) == 0 || states[len(states)-1] != s.State {
			states = append(states, s.State)
		}
	}
	return states
}

// Advanced are the statuses that Advance was called with.
func (h *Hold) Advanced() []elect.TaskStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.advances)
}

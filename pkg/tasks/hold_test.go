package tasks

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/pkg/elect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeHold is a lease that is renewed for ever, unless frozen.
type fakeHold struct {
	key   elect.Key
	lease time.Duration

	mu       sync.Mutex
	token    int64
	status   elect.TaskStatus
	reports  []elect.TaskStatus
	advances []elect.TaskStatus
	fail     func(advance int) error // of the n-th Advance, from 1
	calls    int
	frozen   time.Time // the deadline, when it moves no more
}

func newHold(t Task) *fakeHold { return &fakeHold{key: t.Key(), lease: 20 * time.Second, token: 7} }

func (h *fakeHold) Key() elect.Key  { return h.key }
func (h *fakeHold) Session() string { return "session-1" }

func (h *fakeHold) Token() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token
}

func (h *fakeHold) Valid() bool { return time.Now().Before(h.Deadline()) }

func (h *fakeHold) Deadline() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.frozen.IsZero() {
		return h.frozen
	}
	return time.Now().Add(h.lease * 9 / 10)
}

// freeze lets the lease run out.
func (h *fakeHold) freeze(left time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frozen = time.Now().Add(left)
}

func (h *fakeHold) Status() elect.TaskStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status
}

func (h *fakeHold) Report(s elect.TaskStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = s
	h.reports = append(h.reports, s)
}

func (h *fakeHold) Advance(ctx context.Context, s elect.TaskStatus) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if h.fail != nil {
		if err := h.fail(h.calls); err != nil {
			return 0, err
		}
	}
	h.token += 3
	h.status = s
	h.advances = append(h.advances, s)
	h.reports = append(h.reports, s)
	return h.token, nil
}

// states are those reported, without repetitions.
func (h *fakeHold) states() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var states []string
	for _, s := range h.reports {
		if len(states) == 0 || states[len(states)-1] != s.State {
			states = append(states, s.State)
		}
	}
	return states
}

func (h *fakeHold) advanced() []elect.TaskStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]elect.TaskStatus(nil), h.advances...)
}

func (h *fakeHold) reported() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.reports)
}

// counts is a Metrics.
type counts struct {
	mu       sync.Mutex
	restarts int
	results  []Result
}

func (c *counts) TaskRestart(elect.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restarts++
}

func (c *counts) RunDone(_ elect.Key, result Result, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = append(c.results, result)
}

// rig is a supervisor with one callback, "work".
func rig(t *testing.T, work Callback, change ...func(*Config)) (*Supervisor, *counts) {
	t.Helper()
	registry, metrics := &Registry{}, &counts{}
	if work != nil {
		if err := registry.Register("work", work); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{
		Instance: "a", Lease: 20 * time.Second, Registry: registry, Metrics: metrics, Logger: testr.New(t),
		Environ: func() []string { return []string{"PATH=/usr/bin:/bin", "HOME=/"} },
	}
	for _, c := range change {
		c(&cfg)
	}
	s, err := NewSupervisor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, metrics
}

// runTask starts Run and returns how to stop it, with a cause, and its result. The test does not end before Run does.
func runTask(t *testing.T, s *Supervisor, task Task, hold Hold) (stop context.CancelCauseFunc, done <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	result, returned := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(returned)
		result <- s.Run(ctx, task, hold)
	}()
	t.Cleanup(func() { cancel(elect.ErrReleased); <-returned })
	return cancel, result
}

func callbackTask() Task { return Task{Group: "g", Name: "n", Callback: "work"} }

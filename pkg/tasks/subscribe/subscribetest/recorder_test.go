package subscribetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// recorder is a test that may fail.
type recorder struct {
	t        *testing.T
	mu       sync.Mutex
	cleanups []func()
	failed   []string
	skipped  string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.t.Context() }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Logf(format string, args ...any) { r.t.Logf(format, args...) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.mu.Lock()
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.mu.Lock()
	r.skipped = fmt.Sprintf(format, args...)
	r.mu.Unlock()
	runtime.Goexit()
}

// record runs a check as a test that may fail.
func record(t *testing.T, c check, topic Topic) *recorder {
	t.Helper()
	r := &recorder{t: t}
	apart(func() { c.on(t, r, topic) })
	slices.Reverse(r.cleanups)
	for _, f := range r.cleanups {
		apart(f)
	}
	return r
}

// apart runs f, which may end its goroutine.
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

package testprocess

import (
	"sync"
	"testing"
	"time"
)

// A process that sleeps for stallEvery wakes up a little late on any machine. From stallFrom on that counts.
const (
	stallEvery = 20 * time.Millisecond
	stallFrom  = 10 * time.Millisecond
)

// Stalls measures for how long the machine stood still: how late sleeps of this process ended, in all. Promises in time
// hold beyond that.
type Stalls struct {
	closing, closed chan struct{}

	mu    sync.Mutex
	slept time.Time // when the sleep began that goes on
	stood time.Duration
}

// NewStalls begins to measure, until Close.
func NewStalls() *Stalls {
	s := &Stalls{closing: make(chan struct{}), closed: make(chan struct{}), slept: time.Now()}
	go s.watch()
	return s
}

func (s *Stalls) watch() {
	defer close(s.closed)
	for {
		select {
		case <-time.After(stallEvery):
		case <-s.closing:
			return
		}
		s.mu.Lock()
		s.stood += s.late()
		s.slept = time.Now()
		s.mu.Unlock()
	}
}

// late is by how much the sleep that goes on lasts too long.
func (s *Stalls) late() time.Duration {
	if late := time.Since(s.slept) - stallEvery; late >= stallFrom {
		return late
	}
	return 0
}

// Stood is for how long the machine stood still since NewStalls, also just now.
func (s *Stalls) Stood() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stood + s.late()
}

// Close ends the measurement.
func (s *Stalls) Close() {
	close(s.closing)
	<-s.closed
}

// WatchStalls measures until the test ends. What it returns says for how long the machine stood still so far.
func WatchStalls(t *testing.T) func() time.Duration {
	t.Helper()
	s := NewStalls()
	t.Cleanup(s.Close)
	return s.Stood
}

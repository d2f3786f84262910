package replica

import "sync"

// signal wakes all who wait for news. The zero value is ready. It may be used from many goroutines.
type signal struct {
	mu   sync.Mutex
	next chan struct{} // closed by wake; nil while no one waits
}

// wake reports that there is news. It does not block.
func (s *signal) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// wait returns a channel that the next wake closes.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

package testprocess

import (
	"testing"
	"testing/synctest"
	"time"
)

// Virtual time never stands still, but for a sleep that began long ago.
func TestStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStalls()
		time.Sleep(time.Minute)
		if stood := s.Stood(); stood != 0 {
			t.Errorf("stood still for %v, want not at all", stood)
		}
		s.Close()
		last := s.slept
		time.Sleep(time.Second) // nobody wakes up meanwhile
		want := time.Since(last) - stallEvery
		if stood := s.Stood(); stood != want {
			t.Errorf("stood still for %v, want %v", stood, want)
		}
	})
}

// Sleeps that end late add up.
func TestStallsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStalls()
		for range 3 {
			time.Sleep(stallEvery / 2)
			s.mu.Lock() // the sleep began earlier than it did
			s.slept = s.slept.Add(-time.Second)
			s.mu.Unlock()
			time.Sleep(stallEvery)
		}
		if stood := s.Stood(); stood != 3*time.Second {
			t.Errorf("stood still for %v, want 3 s", stood)
		}
		s.Close()
	})
}

package subscribetest

import (
	"errors"
	"slices"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// checkMadeAgain: a topic that was deleted and made again has no position of the one before, also where it is longer.
// That is no new subscription, which would begin where the configuration says: somebody decides. None of its messages
// is taken for one of the topic before.
func checkMadeAgain(s *scene, inStore bool) {
	c := s.reopen(s.topic.WhenMissing(s.t, subscribe.Stop, inStore))
	s.send(6, "a")
	c.ack(c.take(6)...)
	c = c.again() // it is the one that was read
	c.close()
	s.topic.MakeAgain(s.t)
	sent := s.send(20, "a")
	s.expectStopped(inStore)
	c = s.reopen(s.topic.WhenMissing(s.t, subscribe.Earliest, inStore))
	c.expectRest(sent, "a")
	c.again() // it is decided once
}

// checkPositionGone: a position that the broker has lost is not none.
func checkPositionGone(s *scene) {
	c := s.reopen(s.topic.WhenMissing(s.t, subscribe.Stop, false))
	old := s.send(6, "a")
	c.ack(c.take(6)...)
	c.close()
	s.topic.DropPosition(s.t)
	s.book.forget(old...)
	sent := s.send(4, "a")
	s.expectStopped(false)
	c = s.reopen(s.topic.WhenMissing(s.t, subscribe.Earliest, false))
	c.expectRest(slices.Concat(old, sent), "a")
	c.again() // it is decided once
}

// expectStopped opens a source that is to stop, twice: it does not go on by itself.
func (s *scene) expectStopped(inStore bool) {
	s.Helper()
	s.beginnings.Store(0)
	for range 2 {
		_, err := s.tryOpen(s.topic.WhenMissing(s.t, subscribe.Stop, inStore), patience)
		if !errors.Is(err, subscribe.ErrStop) {
			s.Fatalf("Open of a topic in which the position is gone: want an error that wraps ErrStop, got %v", err)
		}
	}
	if s.beginnings.Load() > 0 {
		s.Fatalf("Open logged that no position was kept: there was one, and it is gone")
	}
}

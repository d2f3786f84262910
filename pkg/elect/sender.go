package elect

import (
	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/internal/outbox"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// sender is what goes out.
type sender struct {
	batches  outbox.Batches
	counters outbox.Counters
	events   outbox.Events
}

// increment notes that a session's state changed: that concerns every group.
func (s *sender) increment(groups []string, now protocol.Instant) {
	s.counters.Increment(cache.CounterMembers, now)
	for _, group := range groups {
		s.counters.Increment(group, now)
	}
}

// note queues an event of a session.
func (s *sender) note(ev Event, session string, m protocol.Moment) {
	s.events.Note(ev, session, m.Clock, m.Now)
}

// noteMove notes that a key changed its owner. Where many keys are owned for the first time, not each of them is worth an event.
func (s *sender) noteMove(is Lock, session string, m protocol.Moment) {
	if is.Reason == ReasonCreated && s.events.Crowded() {
		return
	}
	s.note(Event{
		Type: "Moved", Reason: is.Reason, Key: is.Key, From: is.From, To: is.Instance, Token: is.Token, Message: is.Message,
	}, session, m)
}

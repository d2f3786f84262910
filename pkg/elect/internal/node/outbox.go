package node

import (
	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/internal/outbox"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Outbox is what goes out.
type Outbox struct {
	batches  outbox.Batches
	counters outbox.Counters
	events   outbox.Events
}

// increment notes that a session's state changed: that concerns every group.
func (o *Outbox) increment(groups []string, now protocol.Instant) {
	o.counters.Increment(cache.CounterMembers, now)
	for _, group := range groups {
		o.counters.Increment(group, now)
	}
}

// Note queues an event of a session.
func (o *Outbox) Note(ev record.Event, session string, m protocol.Moment) {
	o.events.Note(ev, session, m.Clock, m.Now)
}

// noteMove notes that a key changed its owner. Where many keys are owned for the first time, not each of them is
// worth an event.
func (o *Outbox) noteMove(is record.Lock, session string, m protocol.Moment) {
	if is.Reason == record.ReasonCreated && o.events.Busy() {
		return
	}
	o.Note(record.Event{
		Type: "Moved", Reason: is.Reason, Key: is.Key, From: is.From, To: is.Instance, Token: is.Token,
		Message: is.Message,
	}, session, m)
}

package subscribe

import (
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// Message is one message of a source.
type Message struct {
	// ID is the message's place, as orders/3/42. It is unique in the topic, and the same whenever the broker gives
	// the message again, to any replica. People see it as the message's position.
	ID string
	// Origin tells the topic from others of its name, at another broker or made again, where the broker has an ID for
	// it. Empty: it has none.
	Origin string
	// Partition is what order is kept within. Messages of one partition come in order. Empty where there is only one.
	Partition string
	// Key is what order is kept within where several messages are in flight. Nil: no order is kept among these.
	Key     []byte
	Body    []byte
	Type    string            // media type of Body, such as application/json; empty: not known
	Headers map[string]string // as published, less those that Type came from
	Time    time.Time         // when it was published; zero: not known
	Again   bool              // the broker says that it has given the message before
	// Delivered is how often the message was delivered before, as far as the source knows; at least 0. A broker's count
	// may be too high: it has messages that were sent ahead, and never tried. So one attempt is always left.
	Delivered int
	// Ref is the source's own, to find the message again in Ack. No one else looks at it.
	Ref any
}

// Unique is the ID, and the origin where there is one. It is for receivers that remember what they have worked on: IDs
// begin again in a topic that was deleted and made again.
func (m Message) Unique() string {
	if m.Origin == "" {
		return m.ID
	}
	return m.ID + "@" + m.Origin
}

// Delivery is one message on its way to a receiver.
type Delivery struct {
	Message
	Attempt     int // from 1; those of earlier runs count, as far as the source knows them
	tasks.Start     // has the fencing token
	// Trace is the delivery's, to pass on; empty without tracing.
	Trace tasks.TraceContext
}

// Lag is how far a subscription is behind. A negative value is not known.
type Lag struct {
	Messages int64   // published and not yet acknowledged
	Seconds  float64 // age of the oldest of them
}

// Unknown is the lag of a source that does not know it.
var Unknown = Lag{Messages: -1, Seconds: -1}

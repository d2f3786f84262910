package judge

import "time"

// Record is all that a scenario saw. It is a value.
type Record struct {
	InFlight   int // maxInFlight of every task
	Sent       []Sent
	Deliveries []Delivery // in the order in which they arrived
	Crashes    []Crash
	Breaks     []Break
}

// Sent is one message that was given to a broker.
type Sent struct {
	Lane, Seq int
	// Confirmed says that the broker has it. Otherwise it may have it or not, and not twice.
	Confirmed bool
}

// Delivery is one message that reached the receiver, and that the receiver accepted.
type Delivery struct {
	Task, Instance string
	Token          int64
	Lane, Seq      int
	At             time.Time
}

// Crash is the end of a replica without a chance to acknowledge anything.
type Crash struct {
	Instance string
	At       time.Time // just before
}

// Break is a time in which connections of all subscriptions to the broker ended.
type Break struct{ From, To time.Time }

// late is how much later than a fault a request may arrive that was on its way: in buffers of the kernel, or to a
// receiver that is busy.
const late = 3 * time.Second

// between says whether the crash came between two deliveries of a message, the first by the instance that crashed.
func (c Crash) between(first, again Delivery) bool {
	return first.Instance == c.Instance && again.Instance != c.Instance && !first.At.After(c.At.Add(late)) &&
		again.At.After(c.At)
}

// between says whether connections may have broken between two deliveries.
func (b Break) between(first, again Delivery) bool {
	return !first.At.After(b.To.Add(late)) && again.At.After(b.From)
}

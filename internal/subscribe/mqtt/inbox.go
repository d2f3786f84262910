package mqtt

import (
	"errors"
	"sync"

	"github.com/eclipse/paho.golang/paho"
)

// Bounds of what an inbox holds.
const (
	// inboxBytes bounds messages of quality of service 0 together. The broker sends them however many are in flight.
	inboxBytes = 32 << 20
	// messageCost is about what a message takes beside its topic and payload, in bytes.
	messageCost = 512
)

var (
	errTooFast = errors.New("messages of quality of service 0 come faster than they are worked on, and are dropped: " +
		"publish them with 1, or speed the receiver up")
	errTooMany = errors.New("the broker sends more messages ahead of their acknowledgements than the Receive Maximum " +
		"of MQTT allows: look for an update of it, or raise maxInFlight")
)

// inbox holds what the broker has sent and Receive has not returned yet. It never makes the client wait: the answers to
// all requests come over the same connection, behind what is held up. Its methods may be called concurrently.
type inbox struct {
	most int // messages with an acknowledgement that the broker may send ahead of it
	// drops is told that messages are dropped, as an error, and of nil once the inbox is empty, with how many were. It is
	// called under the lock, so that the last one counts, and does not block.
	drops func(err error, messages int)

	mu      sync.Mutex
	waiting []*paho.Publish
	asked   load // of those with an acknowledgement
	unasked load // of those without
	dropped int  // since the inbox was last empty

	some chan struct{} // has an element while some wait
}

// load is how much some messages are.
type load struct{ messages, bytes int }

func newInbox(most int, drops func(err error, messages int)) *inbox {
	return &inbox{most: most, drops: drops, some: make(chan struct{}, 1)}
}

// loadOf is the load that a message counts for.
func (i *inbox) loadOf(p *paho.Publish) *load {
	if p.QoS == 0 {
		return &i.unasked
	}
	return &i.asked
}

func costOf(p *paho.Publish) int { return len(p.Topic) + len(p.Payload) + messageCost }

// add adds a message, or drops one without an acknowledgement for which there is no space. errTooMany is the end: one
// with an acknowledgement must not be dropped.
func (i *inbox) add(p *paho.Publish) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	of, cost := i.loadOf(p), costOf(p)
	switch full := of.messages > 0 && of.bytes+cost > inboxBytes; {
	case full && p.QoS == 0:
		if i.dropped++; i.dropped == 1 {
			i.drops(errTooFast, 0)
		}
		return nil
	case full && of.messages >= i.most:
		return errTooMany
	}
	of.messages++
	of.bytes += cost
	i.waiting = append(i.waiting, p)
	i.ring()
	return nil
}

// ring has some receivable. The caller has locked.
func (i *inbox) ring() {
	select {
	case i.some <- struct{}{}:
	default:
	}
}

// take takes up to most messages, the oldest first.
func (i *inbox) take(most int) (taken []*paho.Publish) {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := min(most, len(i.waiting))
	taken = append(taken, i.waiting[:n]...)
	clear(i.waiting[:n])
	i.waiting = i.waiting[n:]
	for _, p := range taken {
		of := i.loadOf(p)
		of.messages--
		of.bytes -= costOf(p)
	}
	if len(i.waiting) > 0 {
		i.ring()
		return taken
	}
	i.waiting = nil
	if i.dropped > 0 {
		i.drops(nil, i.dropped)
		i.dropped = 0
	}
	return taken
}

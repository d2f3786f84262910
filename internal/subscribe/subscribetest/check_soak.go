package subscribetest

import (
	"slices"

	"github.com/shardctl/shardctl/internal/subscribe"
)

const (
	soakMessages = 300
	soakBatch    = 10 // messages a publish
	soakAhead    = 4  // batches that are published and not acknowledged, at most
	soakEvery    = 30 // messages between two troubles
)

// checkSoak: nothing is lost or comes out of order while connections break, owners change and a sender goes on.
func checkSoak(s *scene) {
	run := soak{client: s.open(), credit: make(chan struct{}, soakMessages/soakBatch), granted: soakAhead}
	for range soakAhead {
		run.credit <- struct{}{}
	}
	stop, sent := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		run.send(stop)
	}()
	defer func() {
		close(stop)
		<-sent
	}()
	for s.book.done() < soakMessages {
		run.step()
	}
	run.reopen()
	run.rest("a", "b", "c")
}

// soak is a receiver, and how far the sender may go.
type soak struct {
	*client
	credit  chan struct{} // one for each batch
	granted int
	trouble int                 // number of the next
	pending []subscribe.Message // received, in order, and not acknowledged
}

// send publishes batches while it has credit.
func (k *soak) send(stop <-chan struct{}) {
	traffic := k.traffic
	for range soakMessages / soakBatch {
		select {
		case <-stop:
			return
		case <-k.credit:
			traffic.send(soakBatch, "a", "b", "c")
		}
	}
}

// step receives, and acknowledges half of what is in flight, or all of it where nothing else is to come.
func (k *soak) step() {
	k.Helper()
	if len(k.pending) == 0 || len(k.book.lost(k.n)) > 0 {
		messages, err := k.tryReceive(8, patience)
		if err != nil {
			k.broken("Receive", err)
			return
		}
		k.pending = append(k.pending, messages...)
	}
	if k.book.done() >= (k.trouble+1)*soakEvery {
		k.makeTrouble()
		k.trouble++
		return
	}
	n := (len(k.pending) + 1) / 2
	if len(k.book.lost(k.n)) == 0 {
		n = len(k.pending)
	}
	some := slices.Clone(k.pending[:n])
	k.pending = k.pending[n:]
	if !k.sub.Cumulative() {
		slices.Reverse(some)
	}
	if err := k.tryAck(patience, some...); err != nil {
		k.broken("Ack", err)
	}
	for ; k.granted < min(soakAhead+k.book.done()/soakBatch, soakMessages/soakBatch); k.granted++ {
		k.credit <- struct{}{}
	}
}

// broken opens the subscription again after an error.
func (k *soak) broken(call string, err error) {
	k.Helper()
	if isContext(err) {
		k.Fatalf("%s during the soak, with %d of %d messages acknowledged: want an end within %s, got %v; missing: %s",
			call, k.book.done(), soakMessages, patience, err, list(k.book.lost(k.n)))
	}
	k.Logf("%s of subscription %d: %v", call, k.n, err)
	k.reopen()
}

// makeTrouble is one of a cut, a crash and an orderly change of the owner, while messages are in flight.
func (k *soak) makeTrouble() {
	k.Helper()
	switch k.trouble % 3 {
	case 0:
		k.topic.Cut(k.t)
	case 1:
		k.topic.Cut(k.t)
		k.client, k.pending = k.owners.openSoon(k.source), nil // without Close
	default:
		k.reopen()
	}
}

// reopen closes the subscription, which may be broken, and opens it.
func (k *soak) reopen() {
	k.Helper()
	closeBroken(k.client)
	k.client, k.pending = k.owners.openSoon(k.source), nil
}

package subscribetest

import (
	"cmp"
	"errors"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/pkg/elect"
)

// storeChecks are those of sources that keep their position in the checkpoint.
func storeChecks() []check {
	return []check{
		{"StoreKeepsPosition", stored, checkStoreKeeps},
		{"StoreBeginningIsLogged", stored, func(s *scene) { checkBeginningLogged(s, s.openStored) }},
		{"StoreSaysWhereToBegin", stored, checkStoreBegins},
		{"StoreRefusesStaleOwner", stored, checkStoreStale},
		{"StoreMadeAgain", func(t Topic) string { return cmp.Or(stored(t), remade(t)) }, func(s *scene) {
			checkMadeAgain(s, true)
		}},
		{"StoreKeepsAttempts", stored, func(s *scene) { checkAttempts(s, s.openStored()) }},
	}
}

// checkStoreKeeps: an Ack that has returned is in the checkpoint, whatever happens next.
func checkStoreKeeps(s *scene) {
	c := s.openStored()
	sent := s.send(10, "a")
	got := c.take(10)
	c.ack(got[:3]...)
	c.ack(got[3])
	value, _ := s.store.Held()
	s.store = NewStore(value) // as a crash leaves it: what comes later is not kept
	c = s.openStored()
	c.expectRest(sent[4:], "a")
}

// checkStoreBegins: the checkpoint says where to begin, and no position that the broker has.
func checkStoreBegins(s *scene) {
	c := s.openStored()
	sent := s.send(10, "a")
	got := c.take(10)
	c.ack(got[:4]...)
	value, _ := s.store.Held()
	c.ack(got[4:7]...)
	c.close()
	s.book.forget(got[4:7]...)
	s.store = NewStore(value)
	c = s.openStored()
	c.expectRest(sent[4:], "a")
}

// checkStoreStale: an owner whose checkpoint a newer one has read acknowledges nothing, and cannot open again.
func checkStoreStale(s *scene) {
	stale := s.openStored()
	sent := s.send(8, "a")
	got := stale.take(8)
	stale.ack(got[:2]...)
	c := s.openStored()
	value, _ := s.store.Held()
	expectLost(stale, "Ack", got[2:5])
	if now, _ := s.store.Held(); string(now) != string(value) {
		s.Fatalf("the checkpoint was %q when the newer owner had opened, and the stale one made it %q", value, now)
	}
	c.ack(c.take(3)...)
	expectLost(stale, "Ack, after that of the newer owner,", got[2:5])
	c = c.again()
	c.expectRest(sent[5:], "a")
	s.token -= 3
	if _, err := s.tryOpen(stale.source, patience); !errors.Is(err, elect.ErrLeaseLost) {
		s.Fatalf("Open by token %d after a newer one: want an error that wraps elect.ErrLeaseLost, got %v", s.token,
			err)
	}
}

// expectLost has a stale owner acknowledge messages.
func expectLost(c *client, what string, messages []subscribe.Message) {
	c.Helper()
	if err := c.tryAck(patience, messages...); !errors.Is(err, elect.ErrLeaseLost) {
		c.Fatalf("%s of token %d after a newer one: want an error that wraps elect.ErrLeaseLost, got %v", what, c.n,
			err)
	}
}

package postgres_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/pkg/store"
)

// syncs counts the messages Sync in what clients send. Behind each of them a client waits for an answer (PostgreSQL's
// manual, "Message Flow").
type syncs struct {
	mu sync.Mutex
	n  int
}

// look takes what one write sent: messages as a whole, since the driver writes a batch at once.
func (s *syncs) look(sent []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(sent) >= 5 {
		size := 1 + int(uint32(sent[1])<<24|uint32(sent[2])<<16|uint32(sent[3])<<8|uint32(sent[4]))
		if sent[0] == 'S' {
			s.n++
		}
		if size > len(sent) {
			return
		}
		sent = sent[size:]
	}
}

func (s *syncs) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.n
	s.n = 0
	return n
}

// A batch of changes of any kinds is one round trip, and so is a read.
func TestRoundTrips(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	link := server.Link()
	s := open(t, server.Via(link, server.Database()))
	batch := func(round int64) []store.Change {
		var changes []store.Change
		for i := range 20 {
			for _, kind := range []store.Kind{store.KindLock, store.KindValue, store.KindSession} {
				changes = append(changes, store.Change{IfRev: round, Doc: store.Doc{
					Kind: kind, ID: fmt.Sprint("g/", i), Rev: round + 1,
					WriterID: store.WriterID{Session: "s", Seq: round},
				}})
			}
		}
		return append(changes, increment("g"))
	}
	var counted syncs
	for round := range int64(5) {
		if round == 3 { // both connections have prepared what is sent
			link.Look(counted.look)
		}
		outs, err := s.Apply(t.Context(), batch(round)...)
		if err != nil {
			t.Fatal(err)
		}
		for i, out := range outs {
			if out.Status != store.Applied {
				t.Fatalf("round %d, change %d: %+v", round, i, out)
			}
		}
		if _, err := s.Read(t.Context(), store.KindLock, "g/1", "g/2"); err != nil {
			t.Fatal(err)
		}
	}
	link.Look(nil)
	if n := counted.take(); n != 4 {
		t.Errorf("two batches of 61 changes and two reads took %d round trips, want 4", n)
	}
}

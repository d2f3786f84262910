package postgres_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
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
	s := storetest.Open(t, driver.Config{URI: server.Via(link, server.Database())})
	batch := func(round int64) []driver.Change {
		var changes []driver.Change
		for i := range 20 {
			for _, kind := range []driver.Kind{driver.KindLock, driver.KindValue, driver.KindSession} {
				changes = append(changes, driver.Change{IfRev: round, Doc: driver.Doc{
					Kind: kind, ID: fmt.Sprint("g/", i), Rev: round + 1,
					WriterID: driver.WriterID{Session: "s", Seq: round},
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
			if out.Status != driver.Applied {
				t.Fatalf("round %d, change %d: %+v", round, i, out)
			}
		}
		if _, err := s.Read(t.Context(), driver.KindLock, "g/1", "g/2"); err != nil {
			t.Fatal(err)
		}
	}
	link.Look(nil)
	if n := counted.take(); n != 4 {
		t.Errorf("two batches of 61 changes and two reads took %d round trips, want 4", n)
	}
}

// Old lines of the log are deleted apart from the calls, which do not wait for that.
func TestTrim(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	changes := make([]driver.Change, 1000)
	for i := range changes {
		changes[i] = increment(fmt.Sprint(i))
	}
	for range 3 {
		ends(t, s, patience, driver.Applied, changes...)
	}
	await(t, uri, `SELECT 1 WHERE (SELECT count(*) FROM default_notifications) <= 2000
		UNION ALL SELECT 0 LIMIT 1`)
	conn, err := pgx.Connect(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), `BEGIN; SELECT FROM default_notifications FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	for i := range 5 { // the last is due to trim
		ends(t, s, 10*brief, driver.Applied, changes[200*i:200*(i+1)]...)
	}
	await(t, uri, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE %'
		AND datname = current_database()`)
}

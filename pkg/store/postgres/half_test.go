package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/pkg/store"
)

// largeBatch replaces documents; together they are longer than what a network passes on at once.
func largeBatch(round int64) []store.Change {
	changes := make([]store.Change, store.MaxBatch)
	for i := range changes {
		changes[i] = store.Change{IfRev: round, Doc: store.Doc{
			Kind: store.KindValue, ID: fmt.Sprintf("g/%03d", i), Rev: round + 1, Body: bytes.Repeat([]byte("x"), 2000),
			WriterID: store.WriterID{Session: "large", Seq: round},
		}}
	}
	return changes
}

// A server that got one half of a batch has locked the rows of that half. Who waits for one of them does not hold
// others for as long: those who want only these go on.
func TestHalfBatch(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	uri := server.Database()
	link := server.Link()
	hung, waits, free := openBrief(t, server.Via(link, uri)), openBrief(t, uri), openBrief(t, uri)
	const rounds = 3 // until the connections have prepared what is sent
	for round := range int64(rounds) {
		ends(t, hung, patience, store.Applied, largeBatch(round)...)
	}
	var half sync.Once
	link.Look(func(sent []byte) {
		if len(sent) > 16<<10 {
			half.Do(link.Block)
		}
	})
	ends(t, hung, brief, store.Unknown, largeBatch(rounds)...)
	replace := largeBatch(rounds)[0]
	replace.Doc.WriterID.Session = "other"
	var other sync.WaitGroup
	other.Go(func() { ends(t, waits, 2*patience, store.Applied, increment("both"), replace) })
	await(t, uri, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)
	ends(t, free, patience, store.Applied, increment("both"))
	link.Close() // the client of the half is lost
	other.Wait()
}

// ends applies changes that all end in one way.
func ends(t *testing.T, s store.Store, within time.Duration, want store.Status, changes ...store.Change) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	outs, err := s.Apply(ctx, changes...)
	if err != nil {
		t.Error(err)
	}
	for i, out := range outs {
		if out.Status != want {
			t.Errorf("change %d of %d: %+v, want status %d", i, len(outs), out, want)
			return
		}
	}
}

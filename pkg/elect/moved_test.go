package elect_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// writeMove writes the mark of a move over whatever there is.
func writeMove(t *testing.T, db store.Store, state record.MoveState) {
	t.Helper()
	m, now, err := record.ReadMove(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	ifRev := m.Rev
	m.ID, m.State, m.Other = "move", state, "sqlite:other.db"
	outs, err := db.Apply(
		t.Context(), driver.Change{IfRev: ifRev, Doc: m.Doc(driver.WriterID{Session: string(state), Seq: 1}, now)},
	)
	if err != nil || outs[0].Status != driver.Applied {
		t.Fatal(outs, err)
	}
}

// away is how long a test waits for what must not come.
const away = 3 * lease

// lockFor tries to lock a key for so long, in a store that may not answer.
func lockFor(t *testing.T, n *node, key elect.Key, run elect.RunFunc) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), away)
	defer cancel()
	ok, err := n.Lock(ctx, key, run)
	return ok && err == nil
}

// closed ends an elector on a store that does not take its last writes.
func (n *node) closed(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), away)
	defer cancel()
	if err := n.Close(ctx); err != nil && ctx.Err() != nil {
		t.Errorf("it does not end: %v", err)
	}
}

// startAlone runs an elector whose end may be an error.
func startAlone(t *testing.T, db *memory.Store, name string) *node {
	t.Helper()
	e, err := elect.Start(t.Context(), elect.Config{
		Store: db.Client(), Member: elect.Member{Instance: name}, LeaseDuration: lease, Logger: logr.Discard(),
		Clock: elect.GoClock(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &node{Elector: e, Cluster: e.Cluster()}
}

// No session claims in a store that was left, nor is any made. Both happen once the mark says that the cluster stays.
func TestMovedStoreIsNotClaimedIn(t *testing.T) {
	for _, state := range []record.MoveState{
		record.MoveLeft, record.MoveLeaving, record.MoveArriving, record.MoveAbandoned, "of the future",
	} {
		t.Run(string(state), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, rec := memory.New(), newRecorder(t)
				writeMove(t, db, state)
				n := startAlone(t, db, "a")
				if lockFor(t, n, "g/a", rec.hold("a")) {
					t.Error("a key was claimed in a store that was left")
				}
				for _, kind := range []driver.Kind{driver.KindSession, driver.KindLock} {
					if found, err := db.List(t.Context(), kind, driver.Query{}); err != nil || len(found.Docs) != 0 {
						t.Errorf("written: %+v, %v", found.Docs, err)
					}
				}
				writeMove(t, db, record.MoveStays)
				time.Sleep(lease)
				if !lockFor(t, n, "g/b", rec.hold("a")) {
					t.Error("no key was claimed once the cluster stays")
				}
				n.closed(t)
			})
		})
	}
}

// A session that opens after the mark was written reads it, also when the one before it had passed. Its process ends
// as one whose store is away.
func TestNextSessionReadsTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		n := startAlone(t, db, "a")
		if !lockFor(t, n, "g/a", rec.hold("a")) {
			t.Fatal("nothing runs")
		}
		synctest.Wait()
		before, session := rec.token("g/a"), n.View().Session
		writeMove(t, db, record.MoveLeaving)
		if err := electing.MarkDead(t.Context(), db, electing.Session{ID: session}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(away)
		if n.View().Session == session {
			t.Fatal("no other session was opened")
		}
		if lockFor(t, n, "g/b", rec.hold("a")) {
			t.Error("another key was claimed")
		}
		if after := rec.token("g/a"); after != before {
			t.Errorf("token %d after the mark, want none after %d", after, before)
		}
		n.closed(t)
	})
}

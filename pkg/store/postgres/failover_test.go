package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// both is a URI of both servers of a pair.
func both(t *testing.T, pair *testservers.PostgresPair) string {
	t.Helper()
	return strings.Replace(pair.Primary.Database(), pair.Primary.Addr, pair.Primary.Addr+","+pair.Standby.Addr, 1)
}

// promote makes the standby the primary, and waits until a client writes there. Nothing acknowledged may be lost.
func promote(t *testing.T, pair *testservers.PostgresPair, s driver.Store, w *storetest.Writers) {
	t.Helper()
	pair.Promote()
	began := time.Now()
	calls.Until(t, s, increment("h"))
	t.Logf("written %v after the promotion", time.Since(began).Round(time.Millisecond))
	w.Check(t, s)
}

// When the primary is killed and its synchronous standby promoted, nothing is lost that was acknowledged, and clients
// that name both go on.
func TestPromoted(t *testing.T) {
	pair := testservers.StartPostgresPair(t)
	s := openBrief(t, both(t, pair))
	if problems := store.Problems(s); len(problems) > 0 {
		t.Errorf("problems of a synchronous pair: %+v", problems)
	}
	notes, err := s.Watch(t.Context(), driver.Interest{})
	if err != nil {
		t.Fatal(err)
	}
	<-notes
	w := calls.Write(t, s)
	calls.Until(t, s, increment("g"))
	pair.Primary.Kill()
	promote(t, pair, s, w)
	for len(notes) > 0 {
		<-notes
	}
	calls.Until(t, s, increment("after"))
	calls.Notified(t, notes, "after")
}

// A primary that was replaced and comes up again, by itself, is left alone, although it comes first in the URI: by those
// who were there, by those who begin now, and while its successor is away.
func TestStalePrimary(t *testing.T) {
	pair := testservers.StartPostgresPair(t)
	stale := pair.Primary.Database()
	uri := strings.Replace(stale, pair.Primary.Addr, pair.Primary.Addr+","+pair.Standby.Addr, 1)
	s := openBrief(t, uri)
	calls.Until(t, s, increment("g"))
	pair.Primary.Kill()
	pair.Promote()
	calls.Until(t, s, increment("h"))
	pair.Primary.Start()
	if err := testservers.PostgresExec(t.Context(), pair.Primary,
		"ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	if err := testservers.PostgresExec(t.Context(), pair.Standby, "SELECT pg_terminate_backend(pid) "+
		"FROM pg_stat_activity WHERE application_name = 'shardctl'"); err != nil {
		t.Fatal(err)
	}
	for _, client := range []driver.Store{s, openBrief(t, uri)} {
		calls.Until(t, client, increment("after"))
		calls.Until(t, client, storetest.Heartbeat("after", 0))
	}
	pair.Standby.Kill()
	for deadline := time.Now().Add(patience); ; {
		out := calls.One(t, s, increment("after"))
		if out.Status != driver.Unknown {
			t.Fatalf("without the primary: %+v", out)
		}
		if strings.Contains(out.Err.Error(), "timeline 2 has been seen") && errors.Is(out.Err, driver.ErrUnavailable) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("without the primary: %v, want it to name the timelines", out.Err)
		}
	}
	for _, table := range []string{"groups", "sessions"} {
		n, err := postgres.Value(t.Context(), stale, `SELECT count(*) FROM default_`+table+` WHERE id = 'after'`)
		if err != nil || n > 0 {
			t.Errorf("the old primary has %d %s that were written since, %v", n, table, err)
		}
	}
	pair.Standby.Start()
	calls.Until(t, s, increment("after"))
}

// A primary that is frozen while its standby is promoted is left for the new one, although its connections stay open.
func TestFrozenAndPromoted(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	pair := testservers.StartPostgresPair(t)
	s := openBrief(t, both(t, pair))
	w := calls.Write(t, s)
	if _, err := s.Watch(t.Context(), driver.Interest{}); err != nil {
		t.Fatal(err)
	}
	calls.Until(t, s, increment("g"))
	pair.Primary.Freeze()
	promote(t, pair, s, w)
	wantListener(t, strings.ReplaceAll("postgres://shardctl@ADDR/postgres?sslmode=disable", "ADDR", pair.Standby.Addr))
	pair.Primary.Kill()
}

// So does a watch that looks into the log just then, although its calls have no deadline of their own.
func TestFrozenWhileWatching(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	pair := testservers.StartPostgresPair(t)
	link := pair.Primary.Link()
	s := openBrief(t, strings.Replace(both(t, pair), pair.Primary.Addr, link.Addr, 1))
	notes, err := s.Watch(t.Context(), driver.Interest{})
	if err != nil {
		t.Fatal(err)
	}
	calls.Until(t, s, increment("before"))
	calls.Notified(t, notes, "before")
	pair.Primary.Freeze()
	looked, once := make(chan struct{}), sync.Once{}
	link.Look(func([]byte) { once.Do(func() { close(looked) }) })
	select {
	case <-looked:
	case <-time.After(patience):
		t.Fatal("the watch does not look at intervals")
	}
	pair.Promote()
	for len(notes) > 0 {
		<-notes
	}
	calls.Until(t, s, increment("after"))
	calls.Notified(t, notes, "after")
}

// wantListener waits until somebody listens at a server.
func wantListener(t *testing.T, uri string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		n, err := postgres.Value(t.Context(), uri, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'`)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Error("no watch listens at the new primary")
}

// While the standby is away that each COMMIT waits for, writes are unknown and no one reads them. No call leaves one
// more process behind in the server.
func TestStandbyAway(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	pair := testservers.StartPostgresPair(t)
	uri := pair.Primary.Database()
	s, other := openBrief(t, uri), openBrief(t, uri)
	calls.Until(t, s, increment("g"))
	pair.Standby.Freeze()
	create := driver.Change{Doc: driver.Doc{
		Kind: driver.KindLock, ID: "g/k", Rev: 1, WriterID: driver.WriterID{Session: "s", Seq: 1},
	}}
	for range 8 {
		if out := calls.One(t, s, create); out.Status != driver.Unknown {
			t.Fatalf("without a standby: %+v", out)
		}
		reply, err := other.Read(t.Context(), driver.KindLock, "g/k")
		if err != nil || len(reply.Docs) > 0 {
			t.Fatalf("another client reads %+v, %v; want nothing that is not acknowledged", reply.Docs, err)
		}
	}
	n, err := postgres.Value(t.Context(), uri,
		`SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shardctl' AND datname = current_database()`)
	if most := int64(2*(postgres.MaxCalls+1) + 1); err != nil || n > most {
		t.Errorf("%d connections of two clients, %v; want %d at most", n, err, most)
	}
	pair.Standby.Thaw()
	calls.Until(t, s, create)
}

// waiting counts the processes that wait for the standby.
const waiting = `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()`

// await waits until a query finds some rows.
func await(t *testing.T, uri, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		n, err := postgres.Value(t.Context(), uri, text)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Fatalf("nothing within %v: %s", patience, text)
}

// When an administrator ends the wait for the standby, the outcome is unknown, also where the server is set to keep
// its warnings to itself.
func TestWaitForStandbyEnded(t *testing.T) {
	pair := testservers.StartPostgresPair(t)
	uri := pair.Primary.Database()
	s := openBrief(t, option(t, uri, "client_min_messages=error"))
	calls.Until(t, s, increment("g"))
	pair.Standby.Freeze()
	ended := make(chan []driver.Outcome, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		outs, err := s.Apply(ctx, increment("g"))
		if err != nil {
			t.Error(err)
		}
		ended <- outs
	}()
	await(t, uri, waiting)
	if err := postgres.Exec(t.Context(), uri,
		`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`); err != nil {
		t.Fatal(err)
	}
	for _, out := range <-ended {
		if out.Status != driver.Unknown || !strings.Contains(out.Err.Error(), "the server warns") {
			t.Errorf("the wait was ended: %+v, want unknown", out)
		}
	}
	pair.Standby.Thaw()
}

// crashed is a primary that is up again after a crash, with a write that its standby, which is away, does not have.
func crashed(t *testing.T, pair *testservers.PostgresPair, s driver.Store, away func()) (unknown driver.Change) {
	t.Helper()
	claim := driver.Change{Doc: driver.Doc{
		Kind: driver.KindLock, ID: "g/k", Rev: 1, WriterID: driver.WriterID{Session: "s", Seq: 1},
	}}
	calls.Until(t, s, claim)
	away()
	claim.IfRev, claim.Doc.Rev, claim.Doc.WriterID.Seq = 1, 2, 2
	if out := calls.One(t, s, claim); out.Status != driver.Unknown {
		t.Fatalf("without a standby: %+v", out)
	}
	pair.Primary.Kill()
	pair.Primary.Start()
	return claim
}

// revision reads that of the claim.
func revision(t *testing.T, s driver.Store, within time.Duration) (int64, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	reply, err := s.Read(ctx, driver.KindLock, "g/k")
	if err != nil {
		return 0, err
	}
	return reply.Docs[0].Rev, nil
}

// A primary that crashes while it waits for its standby has, when it is up again, what the standby does not have. No
// one is shown that, or gets the answer that it is applied, before the standby has it.
func TestFoundAfterCrash(t *testing.T) {
	pair := testservers.StartPostgresPair(t)
	uri := pair.Primary.Database()
	s := openBrief(t, uri)
	claim := crashed(t, pair, s, pair.Standby.Freeze)
	await(t, uri, `SELECT count(*) FROM default_locks WHERE rev = 2`)
	for range 3 {
		if rev, err := revision(t, s, brief); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("the standby does not have it: read revision %d, %v", rev, err)
		}
		if out := calls.One(t, s, claim); out.Status != driver.Unknown {
			t.Fatalf("the standby does not have it: %+v, want unknown", out)
		}
	}
	n, err := postgres.Value(t.Context(), uri,
		`SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shardctl'`)
	if most := int64(postgres.MaxCalls + 2); err != nil || n > most {
		t.Errorf("%d connections, %v; want %d at most", n, err, most)
	}
	pair.Standby.Thaw()
	calls.Until(t, s, claim)
	if rev, err := revision(t, s, patience); rev != 2 {
		t.Errorf("read revision %d, %v", rev, err)
	}
}

// What such a primary has is gone when the standby is promoted. So no one may have seen it.
func TestLostAfterCrash(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	pair := testservers.StartPostgresPair(t)
	uri := pair.Primary.Database()
	s := openBrief(t, strings.Replace(uri, pair.Primary.Addr, pair.Primary.Addr+","+pair.Standby.Addr, 1))
	crashed(t, pair, s, pair.Standby.Kill) // frozen, it would have the write in a buffer
	await(t, uri, `SELECT count(*) FROM default_locks WHERE rev = 2`)
	if rev, err := revision(t, s, brief); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("the standby does not have it: read revision %d, %v", rev, err)
	}
	pair.Primary.Kill()
	pair.Standby.Start()
	pair.Promote()
	calls.Until(t, s, increment("h"))
	if rev, err := revision(t, s, patience); rev != 1 {
		t.Errorf("read revision %d, %v; want 1", rev, err)
	}
}

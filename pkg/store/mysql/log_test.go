package mysql_test

import (
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// The log of notifications has a line for what concerns watchers, none for heartbeats and claims, and is kept short.
func TestLog(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	s := storetest.Open(t, store.Config{URI: uri})
	db := root(t, server)
	lines := func() (n int) {
		t.Helper()
		if err := db.QueryRowContext(
			t.Context(), "SELECT count(*) FROM "+databaseOf(uri)+".default_notifications").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	seq := int64(0)
	want := func(what string, more int, kind store.Kind, ifRev int64, change func(*store.Doc)) {
		t.Helper()
		seq++
		c := store.Change{IfRev: ifRev, Doc: store.Doc{
			Kind: kind, ID: "g/a", Group: "g", Rev: ifRev + 1, WriterID: store.WriterID{Session: "s", Seq: seq},
		}}
		change(&c.Doc)
		before := lines()
		out := one(t, t.Context(), s, c)
		if got := lines() - before; out.Status != store.Applied || got != more {
			t.Errorf("%s: %d lines, %+v; want %d", what, got, out, more)
		}
	}
	state := func(name string) func(*store.Doc) { return func(d *store.Doc) { d.State = name } }
	want("a new session", 1, store.KindSession, 0, state("live"))
	want("a heartbeat", 0, store.KindSession, 1, state("live"))
	want("a session that drains", 1, store.KindSession, 2, state("draining"))
	want("one that drains no more", 1, store.KindSession, 3, state("live"))
	want("a heartbeat", 0, store.KindSession, 4, state("live"))
	owned := func(d *store.Doc) { d.Session = "other" }
	want("a new lock", 0, store.KindLock, 0, owned)
	want("a claim", 0, store.KindLock, 1, owned)
	want("one given up", 1, store.KindLock, 2, func(*store.Doc) {})
	want("a reservation", 1, store.KindLock, 3, func(d *store.Doc) { d.Next = "me" })
	want("a value", 0, store.KindValue, 0, func(*store.Doc) {})
	want("an override", 1, store.KindOverride, 0, func(*store.Doc) {})

	var changes []store.Change
	for i := range 5000 {
		changes = append(changes,
			store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: fmt.Sprint(i)}})
	}
	if _, err := s.Apply(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	if got := lines(); got < 2000 || got > 3200 {
		t.Errorf("%d lines after 5,000 changes; want about 2,000 to 3,000", got)
	}
}

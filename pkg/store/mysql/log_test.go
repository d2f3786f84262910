package mysql_test

import (
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// The log of notifications has a line for what concerns watchers, none for heartbeats and claims, and is kept short.
func TestLog(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	s := storetest.Open(t, driver.Config{URI: uri})
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
	want := func(what string, more int, kind driver.Kind, ifRev int64, change func(*driver.Doc)) {
		t.Helper()
		seq++
		c := driver.Change{IfRev: ifRev, Doc: driver.Doc{
			Kind: kind, ID: "g/a", Group: "g", Rev: ifRev + 1, WriterID: driver.WriterID{Session: "s", Seq: seq},
		}}
		change(&c.Doc)
		before := lines()
		out := one(t, t.Context(), s, c)
		if got := lines() - before; out.Status != driver.Applied || got != more {
			t.Errorf("%s: %d lines, %+v; want %d", what, got, out, more)
		}
	}
	state := func(name string) func(*driver.Doc) { return func(d *driver.Doc) { d.State = name } }
	want("a new session", 1, driver.KindSession, 0, state("live"))
	want("a heartbeat", 0, driver.KindSession, 1, state("live"))
	want("a session that drains", 1, driver.KindSession, 2, state("draining"))
	want("one that drains no more", 1, driver.KindSession, 3, state("live"))
	want("a heartbeat", 0, driver.KindSession, 4, state("live"))
	owned := func(d *driver.Doc) { d.Session = "other" }
	want("a new lock", 0, driver.KindLock, 0, owned)
	want("a claim", 0, driver.KindLock, 1, owned)
	want("one given up", 1, driver.KindLock, 2, func(*driver.Doc) {})
	want("a reservation", 1, driver.KindLock, 3, func(d *driver.Doc) { d.Next = "me" })
	want("a value", 0, driver.KindValue, 0, func(*driver.Doc) {})
	want("an override", 1, driver.KindOverride, 0, func(*driver.Doc) {})

	var changes []driver.Change
	for i := range 5000 {
		changes = append(changes,
			driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: fmt.Sprint(i)}})
	}
	if _, err := s.Apply(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	if got := lines(); got < 2000 || got > 3200 {
		t.Errorf("%d lines after 5,000 changes; want about 2,000 to 3,000", got)
	}
}

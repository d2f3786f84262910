package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// heldLease is that of the replicas whose tables somebody holds.
const heldLease = 3 * time.Second

// Who holds one table does not hold up heartbeats, which need another.
func TestHeldTables(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	storetest.HeldTables{Lease: heldLease, Open: func(t *testing.T) (driver.Store, func(string) func()) {
		t.Helper()
		uri := server.Database()
		return openWithin(t, uri, heldLease/6), func(table string) func() { return hold(t, uri, table) }
	}}.Run(t)
}

// hold takes a table as VACUUM FULL and ALTER TABLE do.
func hold(t *testing.T, uri, table string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = conn.Exec(t.Context(), `BEGIN; LOCK TABLE "default_`+table+`" IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

// A pooler forgets what a connection has set, and the wait for a lock is bounded all the same.
func TestHeldTablesBehindAPooler(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	server := testservers.Shared(t, testservers.KindPostgres)
	pooler := testservers.StartPgBouncer(t, server.Addr)
	storetest.HeldTables{Lease: heldLease, Open: func(t *testing.T) (driver.Store, func(string) func()) {
		t.Helper()
		uri := server.Database()
		return openWithin(t, strings.ReplaceAll(uri, server.Addr, pooler.Addr), heldLease/6),
			func(table string) func() { return hold(t, uri, table) }
	}}.Run(t)
}

// A write to a table that somebody holds is unavailable, and says why.
func TestHeldTableIsTold(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	s := openBrief(t, uri)
	release := hold(t, uri, "groups")
	out := calls.One(t, s, increment("g"))
	if out.Status != driver.Unknown || !strings.Contains(out.Err.Error(), "see pg_locks") {
		t.Errorf("a write to a table that is held: %+v", out)
	}
	release()
	calls.Until(t, s, increment("g"))
}

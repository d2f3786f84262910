package mysql_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/mysql"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// Who holds one table does not hold up heartbeats, which need another.
func TestHeldTables(t *testing.T) {
	const lease = 3 * time.Second
	server := testservers.Shared(t, testservers.KindMariaDB)
	storetest.HeldTables{
		Lease: lease, HeartbeatsOnly: true,
		Open: func(t *testing.T) (driver.Store, func(string) func()) {
			t.Helper()
			uri := server.Database()
			return storetest.Open(t, driver.Config{URI: uri, Timeout: lease / 6}),
				func(table string) func() { return hold(t, testservers.MariaDBRoot(server, databaseOf(uri)), table) }
		},
	}.Run(t)
}

// Calls that wait for a table let others by in between, who want another one.
func TestHeldTableLetsOthersBy(t *testing.T) {
	const limit = 4 * time.Second // of a call with a lease of 24 s
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	s := storetest.Open(t, driver.Config{URI: uri, Timeout: limit})
	defer hold(t, testservers.MariaDBRoot(server, databaseOf(uri)), "locks")()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() { _, _ = s.Apply(ctx, put("g/a", 0, 1)) })
	wait.Go(func() { _, _ = s.List(ctx, driver.KindLock, driver.Query{}) })
	waitFor(t, "two calls that wait", func() bool {
		return processes(t, server, databaseOf(uri), `state = 'Waiting for table metadata lock'`) == 2
	})
	soon, cancel := context.WithTimeout(t.Context(), limit/2)
	defer cancel()
	other := put("s", 0, 2)
	other.Doc.Kind = driver.KindMember
	if out := one(t, soon, s, other); out.Status != driver.Applied {
		t.Errorf("a write to another table: %+v", out)
	}
}

// processes is how many connections of a user are so.
func processes(t *testing.T, server *testservers.Server, user, so string) (n int) {
	t.Helper()
	db := root(t, server)
	defer func() { _ = db.Close() }()
	err := db.QueryRowContext(
		t.Context(), `SELECT count(*) FROM information_schema.processlist WHERE user = ? AND `+so, user,
	).Scan(&n)
	if err != nil {
		t.Error(err)
	}
	return n
}

// hold takes a table as ALTER TABLE does.
func hold(t *testing.T, root, table string) (release func()) {
	t.Helper()
	db, err := mysql.DB(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err = conn.ExecContext(t.Context(), "LOCK TABLES default_"+table+" WRITE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.ExecContext(context.WithoutCancel(t.Context()), "UNLOCK TABLES"); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
		_ = db.Close()
	}
}

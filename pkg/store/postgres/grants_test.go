package postgres_test

import (
	"net/url"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// The grants of docs/stores/postgresql.md are enough for who finds the tables in place, and for who only looks.
func TestLeastGrants(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	uri := server.Database()
	owner, worker, reader := testservers.Name(), testservers.Name(), testservers.Name()
	as := func(user string) string { return with(t, uri, func(u *url.URL) { u.User = url.User(user) }) }
	run := func(statements ...string) {
		t.Helper()
		if err := postgres.Exec(t.Context(), uri, statements...); err != nil {
			t.Fatal(err)
		}
	}
	run(`CREATE ROLE `+owner+` LOGIN`, `CREATE ROLE `+worker+` LOGIN`, `CREATE ROLE `+reader+` LOGIN`,
		`CREATE SCHEMA shardctl AUTHORIZATION `+owner)
	for _, role := range []string{owner, worker, reader} {
		run(`ALTER ROLE ` + role + ` SET search_path = shardctl`)
	}
	if out := calls.One(t, storetest.Open(t, store.Config{URI: as(owner)}), increment("g")); out.Status != store.Applied {
		t.Fatalf("owner: %+v", out)
	}
	run(`GRANT USAGE ON SCHEMA shardctl TO `+worker+`, `+reader,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shardctl TO `+worker,
		`GRANT SELECT ON ALL TABLES IN SCHEMA shardctl TO `+reader)
	storetest.Rights{
		Writer: store.Config{URI: as(worker)}, Reader: store.Config{URI: as(reader)},
		Denied: []string{"permission denied", "docs/stores/postgresql.md"},
	}.Run(t)
	s := storetest.Open(t, store.Config{URI: as(worker)})
	notes, err := s.Watch(t.Context(), store.Interest{})
	if err != nil {
		t.Fatal(err)
	}
	<-notes
	calls.Until(t, s, increment("g"))
	calls.Notified(t, notes, "g")
}

// A table that an older program made gets the indexes that a newer one adds, whether that program recorded its steps or
// not.
func TestOldTablesGetNewIndexes(t *testing.T) {
	for name, older := range map[string]string{
		"no steps": `DROP TABLE default_steps`, "three steps": `DELETE FROM default_steps WHERE step > 3`,
	} {
		uri := testservers.Shared(t, testservers.KindPostgres).Database()
		if err := storetest.Open(t, store.Config{URI: uri}).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := postgres.Exec(t.Context(), uri, older, `DROP INDEX default_locks_3`); err != nil {
			t.Fatal(err)
		}
		storetest.Open(t, store.Config{URI: uri})
		n, err := postgres.Value(t.Context(), uri,
			`SELECT count(*) FROM pg_indexes WHERE indexname = 'default_locks_3' AND indexdef LIKE '%(grp, id)'`)
		if err != nil || n != 1 {
			t.Errorf("%s: %d indexes, %v; want 1", name, n, err)
		}
	}
}

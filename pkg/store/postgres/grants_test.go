package postgres_test

import (
	"net/url"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
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
	if out := calls.One(t, storetest.Open(t, driver.Config{URI: as(owner)}), increment("g")); out.Status != driver.Applied {
		t.Fatalf("owner: %+v", out)
	}
	run(`GRANT USAGE ON SCHEMA shardctl TO `+worker+`, `+reader,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shardctl TO `+worker,
		`GRANT SELECT ON ALL TABLES IN SCHEMA shardctl TO `+reader)
	storetest.Rights{
		Writer: driver.Config{URI: as(worker)}, Reader: driver.Config{URI: as(reader)},
		Denied: []string{"permission denied", "docs/stores/postgresql.md"},
	}.Run(t)
	s := storetest.Open(t, driver.Config{URI: as(worker)})
	notes, err := s.Watch(t.Context(), driver.Interest{})
	if err != nil {
		t.Fatal(err)
	}
	<-notes
	calls.Until(t, s, increment("g"))
	calls.Notified(t, notes, "g")
}

// A role that may not ask which timeline the server follows, or may not read the identity of the store, works without.
// One whose grants are older than the table of the identity reads it, as everybody may.
func TestRolesThatAreNotTold(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	worker := testservers.Name()
	run := func(statements ...string) {
		t.Helper()
		if err := postgres.Exec(t.Context(), uri, statements...); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Open(t, driver.Config{URI: uri})
	run(`CREATE ROLE `+worker+` LOGIN`,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO `+worker,
		`REVOKE ALL ON default_identity FROM `+worker)
	as := with(t, uri, func(u *url.URL) { u.User = url.User(worker) })
	want := func(known, blind bool, role string) {
		t.Helper()
		calls.Until(t, storetest.Open(t, driver.Config{URI: as}), increment("g"))
		k, b, err := postgres.Told(t.Context(), as)
		if err != nil || k != known || b != blind {
			t.Errorf("%s: identity known %v, timeline hidden %v, %v; want %v and %v", role, k, b, err, known, blind)
		}
	}
	want(true, false, "a role without a grant of its own")
	run(`REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`)
	want(true, true, "a role that may not ask for the timeline")
	run(`REVOKE SELECT ON default_identity FROM PUBLIC`)
	want(false, true, "a role that may not read the identity")
}

// A table that an older program made gets the indexes that a newer one adds, whether that program recorded its steps or
// not.
func TestOldTablesGetNewIndexes(t *testing.T) {
	for name, older := range map[string]string{
		"no steps": `DROP TABLE default_steps`, "three steps": `DELETE FROM default_steps WHERE step > 3`,
	} {
		uri := testservers.Shared(t, testservers.KindPostgres).Database()
		if err := storetest.Open(t, driver.Config{URI: uri}).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := postgres.Exec(t.Context(), uri, older, `DROP INDEX default_locks_3`); err != nil {
			t.Fatal(err)
		}
		storetest.Open(t, driver.Config{URI: uri})
		n, err := postgres.Value(t.Context(), uri,
			`SELECT count(*) FROM pg_indexes WHERE indexname = 'default_locks_3' AND indexdef LIKE '%(grp, id)'`)
		if err != nil || n != 1 {
			t.Errorf("%s: %d indexes, %v; want 1", name, n, err)
		}
	}
}

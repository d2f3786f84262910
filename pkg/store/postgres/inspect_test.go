package postgres_test

import (
	"os"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// holds are the settings by name, and whether they do.
func holds(t *testing.T, s driver.Store) map[string]bool {
	t.Helper()
	got, err := store.Inspect(t.Context(), s)
	if err != nil || !strings.HasPrefix(got.Server, "PostgreSQL 1") {
		t.Fatalf("server %q, %v", got.Server, err)
	}
	all := map[string]bool{}
	for _, setting := range got.Settings {
		all[setting.Name] = setting.Holds
	}
	return all
}

func TestInspect(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	for name, hold := range holds(t, storetest.Open(t, driver.Config{URI: server.Database()})) {
		if !hold {
			t.Errorf("%s does not hold", name)
		}
	}
}

// A server that may forget what it acknowledged is a problem, and reported at the start.
func TestNotDurable(t *testing.T) {
	server := testservers.Start(
		t, testservers.KindPostgres, "fsync = off", "full_page_writes = off", "synchronous_commit = off",
	)
	s := storetest.Open(t, driver.Config{URI: server.Database()})
	got := holds(t, s)
	if got["fsync"] || got["full_page_writes"] || !got["synchronous_commit"] {
		t.Errorf("settings %v; want the first two not to hold, and the third, which the store sets itself", got)
	}
	problems := store.Problems(s)
	if len(problems) != 2 {
		t.Fatalf("problems %+v, want two", problems)
	}
	for _, p := range problems {
		if p.Reason != "StoreNotDurable" || !strings.Contains(p.Message, "set it to on") {
			t.Errorf("problem %+v", p)
		}
	}
}

// Standbys that no COMMIT waits for are a problem: a failover may lose what was acknowledged.
func TestNotReplicated(t *testing.T) {
	pair := testservers.StartPostgresPair(t)
	uri := pair.Primary.Database()
	if problems := store.Problems(storetest.Open(t, driver.Config{URI: uri})); len(problems) > 0 {
		t.Errorf("problems of a synchronous pair: %+v", problems)
	}
	if err := postgres.Exec(
		t.Context(), uri, `ALTER SYSTEM SET synchronous_standby_names = ''`, `SELECT pg_reload_conf()`,
	); err != nil {
		t.Fatal(err)
	}
	var problems []driver.Problem
	for range 100 {
		if problems = store.Problems(storetest.Open(t, driver.Config{URI: uri})); len(problems) > 0 {
			break
		}
	}
	if len(problems) != 1 || problems[0].Reason != "StoreNotReplicated" {
		t.Errorf("problems without one: %+v", problems)
	}
}

package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// swapped is the URI of a database that a function exchanges with another one, in which the same cluster was set up.
func swapped(t *testing.T, server *testservers.Server) (uri string, swap func()) {
	t.Helper()
	uri = server.Database()
	other := server.Database()
	if err := storetest.Open(t, driver.Config{URI: other}).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, b := databaseOf(t, uri), databaseOf(t, other)
	admin := strings.Replace(uri, "/"+a, "/postgres", 1)
	return uri, func() {
		t.Helper()
		var statements []string
		for _, name := range []string{a, b} {
			statements = append(statements, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false",
				"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
		}
		for _, names := range [][]string{{a, "swap_" + a}, {b, a}, {"swap_" + a, b}} {
			statements = append(statements, fmt.Sprintf("ALTER DATABASE %s RENAME TO %s", names[0], names[1]))
		}
		for _, name := range []string{a, b} {
			statements = append(statements, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true")
		}
		if err := postgres.Exec(t.Context(), admin, statements...); err != nil {
			t.Fatal(err)
		}
	}
}

func databaseOf(t *testing.T, uri string) string {
	t.Helper()
	config, err := pgx.ParseConfig(uri)
	if err != nil {
		t.Fatal(err)
	}
	return config.Database
}

// Another database under the name of the store, and the store itself dropped and set up anew, are refused.
func TestReplaced(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	replaced(t, server, func(uri string) string { return uri })
}

// So they are behind a pooler, whose connections outlast those of the server.
func TestReplacedBehindAPooler(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	server := testservers.Shared(t, testservers.KindPostgres)
	pooler := testservers.StartPgBouncer(t, server.Addr)
	replaced(t, server, func(uri string) string { return strings.ReplaceAll(uri, server.Addr, pooler.Addr) })
}

func replaced(t *testing.T, server *testservers.Server, through func(uri string) string) {
	t.Helper()
	open := func(uri string) func(*testing.T) driver.Store {
		return func(t *testing.T) driver.Store {
			t.Helper()
			return storetest.Open(t, driver.Config{URI: through(uri), Timeout: time.Second})
		}
	}
	t.Run("swapped", func(t *testing.T) {
		uri, swap := swapped(t, server)
		storetest.Replaced{Open: open(uri), Swap: swap}.Run(t)
	})
	t.Run("dropped", func(t *testing.T) {
		uri := server.Database()
		storetest.Replaced{Open: open(uri), Drop: func() {
			if err := postgres.Exec(t.Context(), uri, `DROP SCHEMA public CASCADE`, `CREATE SCHEMA public`); err != nil {
				t.Fatal(err)
			}
		}}.Run(t)
	})
}

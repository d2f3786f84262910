package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// A setting of the database that was wrong for a moment is not kept by the sessions that began meanwhile.
func TestInherited(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	uri := server.Database()
	config, err := pgx.ParseConfig(uri)
	if err != nil {
		t.Fatal(err)
	}
	admin := strings.Replace(uri, "/"+config.Database, "/postgres", 1)
	run := func(statements ...string) {
		t.Helper()
		if err := postgres.Exec(t.Context(), admin, statements...); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Inherited{
		WatchEnds: true,
		Open: func(t *testing.T) driver.Store {
			t.Helper()
			return storetest.Open(t, driver.Config{URI: uri, Timeout: time.Second})
		},
		Spoil: func() {
			run("ALTER DATABASE "+config.Database+" SET search_path = 'nowhere'",
				"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+config.Database+"'")
		},
		Mend: func() { run("ALTER DATABASE " + config.Database + " RESET search_path") },
	}.Run(t)
}

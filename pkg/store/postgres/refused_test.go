package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// A column that every row must have, and that the program does not know, is told as PostgreSQL does.
func TestRefused(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	run := func(texts ...string) {
		t.Helper()
		if err := postgres.Exec(t.Context(), uri, texts...); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Refused{
		Open: func(t *testing.T) driver.Store {
			t.Helper()
			return storetest.Open(t, driver.Config{URI: uri})
		},
		Refuse: func(_ *testing.T, kind driver.Kind) (mend func()) {
			table := "ALTER TABLE default_" + kind.Info().Plural
			run(table+" ADD COLUMN owner text NOT NULL DEFAULT 'x'", table+" ALTER COLUMN owner DROP DEFAULT")
			return func() { run(table + " DROP COLUMN owner") }
		},
		Says: "not-null constraint",
	}.Run(t)
}

func TestSettingsAreLookedAtAgain(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres)
	uri := server.Database()
	set := func(change string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Helper()
			if err := postgres.Exec(t.Context(), uri, "ALTER SYSTEM "+change, "SELECT pg_reload_conf()"); err != nil {
				t.Fatal(err)
			}
		}
	}
	storetest.Settings{
		Open: func(t *testing.T) driver.Store {
			t.Helper()
			return storetest.Open(t, driver.Config{URI: uri})
		},
		Spoil: set("SET full_page_writes = off"), Mend: set("SET full_page_writes = on"), Reason: "StoreNotDurable",
	}.Run(t)
}

// A server whose transactions are read-only by a setting is no standby, and is not called one.
func TestReadOnlyBySetting(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	uri := server.Database()
	config, err := pgx.ParseConfig(uri)
	if err != nil {
		t.Fatal(err)
	}
	database, admin := config.Database, strings.Replace(uri, "/"+config.Database, "/postgres", 1)
	s := storetest.Open(t, driver.Config{URI: uri, Timeout: time.Second})
	for _, text := range []string{
		"ALTER DATABASE " + database + " SET default_transaction_read_only = on",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + database + "'",
	} {
		if err := postgres.Exec(t.Context(), admin, text); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); ; {
		_, err := s.Read(t.Context(), driver.KindLock, "g/a")
		if err != nil && strings.Contains(err.Error(), "default_transaction_read_only is on") {
			return
		}
		if time.Now().After(end) || err != nil && strings.Contains(err.Error(), "standby is or") {
			t.Fatalf("%v, want the setting", err)
		}
	}
}

// Backups and logical replication read the log and are no standbys: naming one would stop every COMMIT. What cannot be
// told is not named either.
func TestReadersOfTheLog(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres, "wal_level = logical")
	uri := server.Database()
	for name, tt := range map[string]struct {
		app, slot string // slot: empty, PHYSICAL, or LOGICAL with its plugin
		want      string
	}{
		"change capture":                 {"debezium", "LOGICAL pgoutput", ""},
		"pg_receivewal":                  {"pg_receivewal", "PHYSICAL", ""},
		"barman":                         {"barman_receive_wal", "PHYSICAL", ""},
		"pg_basebackup":                  {"pg_basebackup", "", ""},
		"a standby that begins":          {"node2", "PHYSICAL", "StoreNotReplicated"},
		"who has no slot and no replica": {"something", "", "StoreUnchecked"},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := pgconn.ParseConfig(uri)
			if err != nil {
				t.Fatal(err)
			}
			config.RuntimeParams["replication"], config.RuntimeParams["application_name"] = "database", tt.app
			conn, err := pgconn.ConnectConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
			if tt.slot != "" {
				_, err := conn.Exec(t.Context(), "CREATE_REPLICATION_SLOT reader TEMPORARY "+tt.slot).ReadAll()
				if err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, p := range store.Problems(storetest.Open(t, driver.Config{URI: uri})) {
				got = append(got, p.Reason)
				if p.Reason == "StoreUnchecked" && strings.Contains(p.Message, "name one") {
					t.Errorf("%s: dangerous advice", p.Message)
				}
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}

// While a synchronous standby is away, writes say that they wait for it, and not only that rows are locked.
func TestStandbyAwayIsTold(t *testing.T) {
	pair := testservers.StartPostgresPair(t)
	s := storetest.Open(t, driver.Config{URI: pair.Primary.Database(), Timeout: time.Second})
	pair.Standby.Freeze()
	defer pair.Standby.Thaw()
	for rev, end := int64(0), time.Now().Add(time.Minute); ; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		outs, err := s.Apply(ctx, storetest.Heartbeat("session", rev))
		cancel()
		switch {
		case err != nil:
			t.Fatal(err)
		case outs[0].Status == driver.Applied:
			rev++
		case outs[0].Err != nil && strings.Contains(outs[0].Err.Error(), "wait for a synchronous standby that is away"):
			return
		case time.Now().After(end):
			t.Fatalf("%v, want what the server waits for", outs[0].Err)
		}
	}
}

package mysql_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// A column that every row must have, and that the program does not know, is told as the server does.
func TestRefused(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	storetest.Refused{
		Open: func(t *testing.T) driver.Store {
			t.Helper()
			return storetest.Open(t, driver.Config{URI: uri})
		},
		Refuse: func(t *testing.T, kind driver.Kind) (mend func()) {
			t.Helper()
			table := "ALTER TABLE " + databaseOf(uri) + ".default_" + kind.Info().Plural
			exec(t, server, table+" ADD COLUMN owner INT NOT NULL")
			return func() { exec(t, server, table+" DROP COLUMN owner") }
		},
		Says: "doesn't have a default value",
	}.Run(t)
}

func TestSettingsAreLookedAtAgain(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB)
	uri := server.Database()
	set := func(value string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Helper()
			exec(t, server, "SET GLOBAL innodb_flush_log_at_trx_commit = "+value)
		}
	}
	storetest.Settings{
		Open: func(t *testing.T) driver.Store {
			t.Helper()
			return storetest.Open(t, driver.Config{URI: uri})
		},
		Spoil: set("0"), Mend: set("1"), Reason: "StoreNotDurable",
	}.Run(t)
}

// While somebody holds all tables, as backups do, writes say that they wait for it.
func TestReadLockIsTold(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB)
	s := storetest.Open(t, driver.Config{URI: server.Database(), Timeout: time.Second})
	conn, err := root(t, server).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		outs, err := s.Apply(ctx, storetest.Heartbeat("session", 0))
		cancel()
		switch {
		case err != nil:
			t.Fatal(err)
		case outs[0].Err != nil && strings.Contains(outs[0].Err.Error(), "FLUSH TABLES WITH READ LOCK"):
			return
		case time.Now().After(end):
			t.Fatalf("%v, want what the server waits for", outs[0])
		}
	}
}

package postgres_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
)

// option adds a setting of the connections to a URI.
func option(t *testing.T, uri, setting string) string {
	t.Helper()
	return with(t, uri, func(u *url.URL) { u.RawQuery += "&options=-c%20" + url.QueryEscape(setting) })
}

// see notes the settings under which locks are written.
var see = []string{
	`CREATE TABLE seen (setting text, default_value text, idle text)`,
	`CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO seen SELECT setting, reset_val, current_setting('tcp_keepalives_idle')
			FROM pg_settings WHERE name = 'synchronous_commit';
		RETURN NULL;
	END $$`,
	`CREATE TRIGGER see AFTER INSERT ON default_locks FOR EACH ROW EXECUTE FUNCTION see()`,
}

// Sessions take on what is reloaded. A COMMIT of this store waits for the disk all the same, and for more where the
// server is told so. A server also notices soon that its client's machine is gone.
func TestReloadedSettings(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres)
	uri := server.Database()
	s := open(t, uri)
	if err := postgres.Exec(t.Context(), uri, see...); err != nil {
		t.Fatal(err)
	}
	seq := int64(0)
	for setting, want := range map[string]string{
		"off": "on", "local": "on", "remote_write": "on", "remote_apply": "remote_apply",
	} {
		if err := postgres.Exec(t.Context(), uri,
			`ALTER SYSTEM SET synchronous_commit = `+setting, `SELECT pg_reload_conf()`); err != nil {
			t.Fatal(err)
		}
		seen := `SELECT count(*) FROM seen WHERE default_value = '` + setting + `' AND setting `
		found := int64(0)
		for deadline := time.Now().Add(patience); found == 0 && time.Now().Before(deadline); {
			seq++
			writer := store.WriterID{Session: "s", Seq: seq}
			until(t, s, store.Change{Doc: store.Doc{
				Kind: store.KindLock, ID: "g/" + setting, Rev: 1,
				WriterID: writer,
			}})
			until(t, s, store.Change{Op: store.Delete, IfRev: 1, Doc: store.Doc{
				Kind: store.KindLock, ID: "g/" + setting, WriterID: writer,
			}})
			found = value(t, uri, seen+`= '`+want+`'`)
		}
		// A transaction that the reload comes into keeps what it has begun with, which is enough as well.
		weak := value(t, uri, seen+`NOT IN ('on', 'remote_apply')`)
		if found == 0 || weak > 0 {
			t.Errorf("after a reload of %s, %d transactions were under %s, and %d under too little", setting, found,
				want, weak)
		}
	}
	if n := value(t, uri, `SELECT count(*) FROM seen WHERE idle <> '4'`); n > 0 {
		t.Errorf("%d transactions were of sessions that do not soon notice a lost client", n)
	}
}

func value(t *testing.T, uri, text string) int64 {
	t.Helper()
	n, err := postgres.Value(t.Context(), uri, text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Nothing hangs on the isolation that is the role's default.
func TestStoreUnderOtherIsolation(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		return storetest.Database{Open: database(option(t, server.Database(),
			"default_transaction_isolation=serializable")).Open}
	}, "set-up at once", "racing writers", "batch of outcomes")
}

// A log is that of the tables beside it, no matter who writes them.
func TestTwoSchemas(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	if err := postgres.Exec(t.Context(), uri, `CREATE SCHEMA a`, `CREATE SCHEMA b`); err != nil {
		t.Fatal(err)
	}
	in := func(schema string) string {
		return with(t, uri, func(u *url.URL) { u.RawQuery += "&search_path=" + schema })
	}
	first, second := open(t, in("a")), open(t, in("b"))
	until(t, first, increment("g"))
	until(t, second, increment("g"))
	if err := postgres.Exec(t.Context(), in("b"), `UPDATE a.default_groups SET count = count + 1`); err != nil {
		t.Fatal(err)
	}
	for schema, want := range map[string]int64{"a": 2, "b": 1} {
		if n := value(t, uri, `SELECT count(*) FROM `+schema+`.default_notifications`); n != want {
			t.Errorf("the log of schema %s has %d lines, want %d", schema, n, want)
		}
	}
	if err := postgres.Exec(t.Context(), uri, `UPDATE a.default_groups SET count = count + 1`); err != nil {
		t.Errorf("under a search_path without the tables: %v", err)
	}
}

package postgres_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// Behind a pooler in transaction mode, which may know no prepared statements, all promises hold. Nothing reports
// changes there: watches look, and the store says so.
func TestPooler(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "a real server")
	server := testservers.Shared(t, testservers.KindPostgres)
	pooler := testservers.StartPgBouncer(t, server.Addr)
	through := func(uri string) string { return strings.ReplaceAll(uri, server.Addr, pooler.Addr) }
	storetest.Run(
		t, func(*testing.T) storetest.Database {
			return storetest.Database{Open: database(through(server.Database())).Open}
		},
		"create", "replace", "delete", "fields", "ids", "batch of outcomes", "racing writers", "increment", "query",
		"watch", "watch ends", "set-up at once", "unknown outcomes",
	)
	uri := server.Database()
	problems := store.Problems(storetest.Open(t, driver.Config{URI: through(uri)}))
	if len(problems) != 1 || problems[0].Reason != "StorePolled" {
		t.Errorf("problems behind a pooler: %+v, want StorePolled", problems)
	}
	if problems := store.Problems(storetest.Open(t, driver.Config{URI: uri})); len(problems) > 0 {
		t.Errorf("problems without one: %+v", problems)
	}
}

// A pooler that is restarted is a server that was away for a moment.
func TestPoolerRestarted(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	pooler := testservers.StartPgBouncer(t, server.Addr)
	s := openBrief(t, strings.ReplaceAll(server.Database(), server.Addr, pooler.Addr))
	w := calls.Write(t, s)
	calls.Until(t, s, increment("g"))
	pooler.Kill()
	pooler.Start()
	calls.Until(t, s, increment("g"))
	w.Check(t, s)
}

// While the standby is away, a store behind a pooler takes no further connection of the server with each call.
func TestPoolerStandbyAway(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	pair := testservers.StartPostgresPair(t)
	uri := pair.Primary.Database()
	pooler := testservers.StartPgBouncer(t, pair.Primary.Addr)
	s := openBrief(t, strings.ReplaceAll(uri, pair.Primary.Addr, pooler.Addr))
	calls.Until(t, s, increment("g"))
	pair.Standby.Freeze()
	for i := range int64(6) {
		claim := driver.Change{Doc: driver.Doc{
			Kind: driver.KindLock, ID: fmt.Sprint("g/", i), Session: "s", Rev: 1,
			WriterID: driver.WriterID{Session: "s", Seq: i},
		}}
		if out := calls.One(t, s, claim); out.Status != driver.Unknown {
			t.Fatalf("without a standby: %+v", out)
		}
	}
	if n := value(t, uri, waiting); n > postgres.MaxCalls {
		t.Errorf("%d processes of the server wait for the standby, want %d at most", n, postgres.MaxCalls)
	}
	pair.Standby.Thaw()
	calls.Until(t, s, increment("g"))
}

// A pooler keeps its clients' connections when the server behind it becomes another one. A standby there answers no
// read: it may lack what was acknowledged.
func TestPoolerMoved(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	pair := testservers.StartPostgresPair(t)
	uri := pair.Primary.Database()
	link := pair.Primary.Link()
	pooler := testservers.StartPgBouncer(t, link.Addr)
	through, direct := openBrief(t, strings.ReplaceAll(uri, pair.Primary.Addr, pooler.Addr)), openBrief(t, uri)
	calls.Until(t, through, increment("g"))
	standby := strings.Replace(uri, pair.Primary.Addr, pair.Standby.Addr, 1)
	if err := postgres.Exec(t.Context(), standby, `SELECT pg_wal_replay_pause()`); err != nil {
		t.Fatal(err)
	}
	calls.Until(t, direct, increment("g"))
	link.Lead(pair.Standby.Addr)
	link.Cut()
	for deadline := time.Now().Add(patience); ; {
		reply, err := through.Read(t.Context(), driver.KindGroup, "g")
		if err == nil {
			t.Fatalf("a standby was read: %+v", reply.Docs)
		}
		if strings.Contains(err.Error(), "the server is read-only") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v, want it to say that the server is read-only", err)
		}
	}
	link.Lead(pair.Primary.Addr)
	link.Cut()
	calls.Until(t, through, increment("g"))
	if got := count(t, through, "g"); got < 3 {
		t.Errorf("counted %d, want 3 at least", got)
	}
}

// olderNote is the function of a cluster's triggers as programs made it that knew no quiet clients.
const olderNote = `CREATE OR REPLACE FUNCTION default_note() RETURNS trigger LANGUAGE plpgsql AS $note$ BEGIN
	INSERT INTO default_notifications (kind, id, grp, next) VALUES (TG_ARGV[0], NEW.id, NEW.grp, NEW.next);
	PERFORM pg_notify('default_notifications', '');
	RETURN NULL;
END $note$`

// With pollMillis watches look into the log, and a change notifies no one: it waits for no other that commits.
func TestPolling(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	if err := storetest.Open(t, driver.Config{URI: uri}).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Exec(t.Context(), uri, olderNote, `DROP TABLE default_steps`); err != nil {
		t.Fatal(err)
	}
	s := openBrief(t, polling(t, uri, "20"))
	if found := store.Problems(s); len(found) > 0 {
		t.Errorf("problems of a store that polls by choice: %+v", found)
	}
	other, err := pgx.Connect(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(t.Context()) }()
	if _, err := other.Exec(t.Context(), `LISTEN default_notifications`); err != nil {
		t.Fatal(err)
	}
	notes, err := s.Watch(t.Context(), driver.Interest{})
	if err != nil {
		t.Fatal(err)
	}
	<-notes // the first Resync
	calls.Until(t, s, increment("polled"))
	calls.Notified(t, notes, "polled")
	n, err := postgres.Value(t.Context(), uri, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND `+
		`datname = current_database() AND pid <> $1`, int64(other.PgConn().PID()))
	if err != nil || n > 0 {
		t.Errorf("%d connections listen, %v", n, err)
	}
	if _, err := other.Exec(t.Context(), `NOTIFY default_notifications, 'own'`); err != nil {
		t.Fatal(err)
	}
	heard, err := other.WaitForNotification(t.Context())
	if err != nil || heard.Payload != "own" {
		t.Errorf("heard %+v, %v; want only what the test sent", heard, err)
	}
	for text, want := range map[string]string{"1": "must be 5 to 60000", "x": "must be"} {
		_, err := postgres.Open(t.Context(), postgres.Options{URI: polling(t, uri, text)})
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("pollMillis=%s: %v", text, err)
		}
	}
}

// polling is a URI whose watches look at intervals of so many ms.
func polling(t *testing.T, uri, ms string) string {
	t.Helper()
	return with(t, uri, func(u *url.URL) { u.RawQuery += "&pollMillis=" + ms })
}

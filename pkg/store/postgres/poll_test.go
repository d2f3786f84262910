package postgres_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/postgres"
)

// olderNote is the function of a cluster's triggers as programs made it that knew no quiet clients.
const olderNote = `CREATE OR REPLACE FUNCTION default_note() RETURNS trigger LANGUAGE plpgsql AS $note$ BEGIN
	INSERT INTO default_notifications (kind, id, grp, next) VALUES (TG_ARGV[0], NEW.id, NEW.grp, NEW.next);
	PERFORM pg_notify('default_notifications', '');
	RETURN NULL;
END $note$`

// With pollMillis watches look into the log, and a change notifies no one: it waits for no other that commits.
func TestPolling(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	if err := open(t, uri).Close(t.Context()); err != nil {
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
	notes, err := s.Watch(t.Context(), store.Interest{})
	if err != nil {
		t.Fatal(err)
	}
	<-notes // the first Resync
	until(t, s, increment("polled"))
	wantNotified(t, notes, "polled")
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
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("pollMillis=%s: %v", text, err)
		}
	}
}

// polling is a URI whose watches look at intervals of so many ms.
func polling(t *testing.T, uri, ms string) string {
	t.Helper()
	return with(t, uri, func(u *url.URL) { u.RawQuery += "&pollMillis=" + ms })
}

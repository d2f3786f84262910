package postgres_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/pkg/store"
)

// Old lines of the log are deleted apart from the calls, which do not wait for that.
func TestTrim(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	s := open(t, uri)
	changes := make([]store.Change, 1000)
	for i := range changes {
		changes[i] = increment(fmt.Sprint(i))
	}
	for range 3 {
		ends(t, s, patience, store.Applied, changes...)
	}
	await(t, uri, `SELECT 1 WHERE (SELECT count(*) FROM default_notifications) <= 2000
		UNION ALL SELECT 0 LIMIT 1`)
	conn, err := pgx.Connect(t.Context(), uri)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), `BEGIN; SELECT FROM default_notifications FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	for i := range 5 { // the last is due to trim
		ends(t, s, 10*brief, store.Applied, changes[200*i:200*(i+1)]...)
	}
	await(t, uri, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE %'
		AND datname = current_database()`)
}

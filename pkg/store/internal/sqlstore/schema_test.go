package sqlstore_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

// undo takes back what each step after the first makes of a cluster that is called default. A step that makes nothing
// in a SQLite file is empty.
var undo = []string{
	`DROP TABLE default_mutexes`,
	`DROP TABLE default_requests`,
	`DROP INDEX default_locks_3`,
	``,
	`DROP TABLE default_identity`,
	`DELETE FROM default_steps WHERE step < 0`,
}

// firstStep is what the first step makes: what comes later needs a step of its own, or older databases never get it.
const firstStep = "default_events default_events_1 default_events_2 default_groups default_groups_1 default_locks " +
	"default_locks_1 default_locks_2 default_members default_notifications default_overrides default_schema " +
	"default_sessions default_sessions_1 default_steps default_values default_values_1"

// A database that any earlier program has made becomes one as a new database is, and loses nothing. Programs before the
// steps recorded none: they had made all of them, or some.
func TestUpgradeFromEachStep(t *testing.T) {
	_, fresh := upgraded(t, "")
	for taken := 0; taken <= len(undo); taken++ {
		later := ""
		for i := len(undo); i > taken; i-- {
			later += fmt.Sprintf("%s; DELETE FROM default_steps WHERE step = %d; ", undo[i-1], i+1)
		}
		before, after := upgraded(t, later)
		if after != fresh {
			t.Errorf("from step %d:\n%s\nwant\n%s", taken+1, after, fresh)
		}
		if taken == 0 && before != firstStep {
			t.Errorf("the first step makes\n%s\nwant\n%s", before, firstStep)
		}
		if _, after = upgraded(t, later+`DROP TABLE default_steps`); after != fresh {
			t.Errorf("from step %d, without a record:\n%s\nwant\n%s", taken+1, after, fresh)
		}
	}
}

// upgraded makes a database, changes it and opens it again. It returns the names of all tables and indexes before that,
// and their texts and the steps after it.
func upgraded(t *testing.T, change string) (before, after string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	lock := driver.Change{Doc: driver.Doc{
		Kind: driver.KindLock, ID: "g/a", Rev: 1, WriterID: driver.WriterID{Session: "s", Seq: 1},
	}}
	for _, change := range []string{"", change} {
		if err := onFile(t.Context(), path, change); err != nil {
			t.Fatal(err)
		}
		before = texts(t, path, `SELECT name FROM sqlite_schema WHERE name LIKE 'default%' ORDER BY name`)
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(t.Context(), lock); err != nil {
			t.Error(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return before, texts(t, path, `SELECT sql FROM sqlite_schema WHERE name LIKE 'default%' UNION ALL `+
		`SELECT 'step ' || step FROM default_steps UNION ALL SELECT 'version ' || version FROM default_schema UNION ALL `+
		`SELECT 'lock ' || id || rev FROM default_locks ORDER BY 1`)
}

func texts(t *testing.T, path, query string) string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
)

// A log of notifications that takes no lines fails no change.
func TestBrokenLog(t *testing.T) {
	const drop = `DROP TABLE "default_notifications"`
	for name, fault := range map[string]struct{ breaks, told string }{
		"dropped": {breaks: drop},
		"a column without a default": {
			breaks: drop + `; CREATE TABLE "default_notifications" (seq INTEGER PRIMARY KEY AUTOINCREMENT, ` +
				`kind TEXT NOT NULL, id TEXT NOT NULL, grp TEXT NOT NULL, next TEXT NOT NULL, tenant TEXT NOT NULL) STRICT`,
			told: drop,
		},
		"numbers at their end": {
			breaks: `INSERT INTO default_notifications VALUES (9223372036854775807, '', '', '', '')`, told: drop,
		},
		"numbers set back": {breaks: `DELETE FROM default_notifications; DELETE FROM sqlite_sequence`},
		"no steps":         {breaks: drop + `; DROP TABLE default_steps`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			storetest.BrokenLog{
				Config: driver.Config{URI: "sqlite:" + path}, Break: func() { execute(t, path, fault.breaks) },
				Told: fault.told, Mend: func() { execute(t, path, fault.told) },
			}.Run(t)
		})
	}
}

// Indexes that somebody has dropped are made again, and a table of documents is not.
func TestPieces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	storetest.Pieces{
		Config: driver.Config{URI: "sqlite:" + path},
		Layout: func(t *testing.T) []string {
			t.Helper()
			return names(t, path, `SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name`)
		},
		Drop: func(t *testing.T) {
			t.Helper()
			for _, name := range names(t, path, `SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL`) {
				execute(t, path, `DROP INDEX "`+name+`"`)
			}
			execute(t, path, `DROP TABLE default_notifications`)
		},
		DropTable: func(t *testing.T, kind driver.Kind) {
			t.Helper()
			execute(t, path, `DROP TABLE default_`+kind.Info().Plural)
		},
	}.Run(t)
}

// execute runs statements in a file as another process would.
func execute(t *testing.T, path, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), `PRAGMA busy_timeout = 10000; `+statements); err != nil {
		t.Fatalf("%s: %v", strings.TrimSpace(statements), err)
	}
}

// names are the values of a query's one column.
func names(t *testing.T, path, query string) (all []string) {
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
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/pkg/store/storetest"
)

// What a trigger that somebody made refuses is told as the trigger says it.
func TestRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	s := open(t, path, sqlite.Options{})
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	run := func(text string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), `PRAGMA busy_timeout = 10000; `+text); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Refused{
		Open: func(*testing.T) driver.Store { return s },
		Refuse: func(_ *testing.T, kind driver.Kind) (mend func()) {
			run(`CREATE TRIGGER by_hand BEFORE INSERT ON default_` + kind.Info().Plural +
				` BEGIN SELECT RAISE(ABORT, 'no owner was named'); END`)
			return func() { run(`DROP TRIGGER by_hand`) }
		},
		Says: "no owner was named",
	}.Run(t)
}

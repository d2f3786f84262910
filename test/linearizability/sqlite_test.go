package linearizability

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/sqlstore"
)

// usual are the faults on the way to a database.
var usual = odds{loseRequest: 0.01, loseAnswer: 0.02, late: 0.01, delay: 0.05, longest: 20 * time.Millisecond}

func sqliteFile(t *testing.T) (database, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	return database{name: "SQLite", freshLists: true, open: func(ctx context.Context) (elect.Store, error) {
		s, err := sqlstore.Open(ctx, path, sqlstore.Options{})
		if err != nil {
			return nil, err
		}
		return s, nil
	}}, path
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	db, _ := sqliteFile(t)
	ctx, cancel := context.WithTimeout(t.Context(), length())
	defer cancel()
	r := newDocumentRun(t, db, seed, usual)
	complain(t, seed, r.run(ctx))
	t.Logf("documents: %v, faults: %v", r.tally, r.faults)
}

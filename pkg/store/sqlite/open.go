package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"modernc.org/sqlite"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// Options of a store; the zero value is ready to use.
type Options = sqlstore.Options

// Open opens the SQLite file at path, creates it when there is none (its directory has to exist) and sets it up, all
// within ctx. With Options.Existing nothing is made. Errors wrap [store.ErrInvalid] when it is no use to try again,
// [store.ErrSchema] when another version of the program set the file up, else [store.ErrUnavailable].
func Open(ctx context.Context, path string, o Options) (store.Store, error) {
	abs, file, err := prepareFile(path, !o.Existing)
	if err != nil {
		return nil, err
	}
	connector, err := sqlite.NewConnector(dsn(abs))
	if err != nil {
		return nil, fmt.Errorf("SQLite file %q: %w: %w", abs, store.ErrInvalid, err)
	}
	return sqlstore.Open(ctx, sql.OpenDB(connector), &dialect{path: abs, file: file}, o)
}

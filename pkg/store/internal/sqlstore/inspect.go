package sqlstore

import (
	"context"
	"database/sql"

	"github.com/shardctl/shardctl/pkg/store"
)

// Inspector is a [File] that can say what its database is and how it is set up.
type Inspector interface {
	// Inspect asks on a connection of the store's own, so that settings of connections are seen as well.
	Inspect(ctx context.Context, conn *sql.Conn) (store.Inspection, error)
}

// Inspect says what the database is and how it is set up, as far as it can say so. See [store.Inspect].
func (b *Backend) Inspect(ctx context.Context) (found store.Inspection, err error) {
	err = b.retry(ctx, func() error {
		found, err = b.database.inspect(ctx)
		return err
	})
	return found, err
}

// Problems are those that were found when the store was opened. See [store.Problems].
func (b *Backend) Problems() []store.Problem {
	if server, ok := b.dialect.(Server); ok {
		return server.Problems()
	}
	return nil
}

func (s *server) inspect(ctx context.Context) (store.Inspection, error) {
	return s.dialect.Inspect(ctx)
}

func (f *file) inspect(ctx context.Context) (store.Inspection, error) {
	dialect, ok := f.dialect.(Inspector)
	if !ok {
		return store.Inspection{}, nil
	}
	conn, err := f.newConn(ctx)
	if err != nil {
		return store.Inspection{}, err
	}
	defer func() { _ = conn.Close() }()
	return dialect.Inspect(ctx, conn)
}

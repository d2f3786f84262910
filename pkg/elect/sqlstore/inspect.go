package sqlstore

import (
	"context"
	"database/sql"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Inspector is a [Dialect] that can say what its database is and how it is set up.
type Inspector interface {
	// Inspect asks on a connection of the store's own, so that settings of connections are seen as well.
	Inspect(ctx context.Context, conn *sql.Conn) (store.Inspection, error)
}

// Inspect says what the database is and how it is set up, as far as its dialect is an [Inspector]. See [store.Inspect].
func (s *Store) Inspect(ctx context.Context) (store.Inspection, error) {
	dialect, ok := s.dialect.(Inspector)
	if !ok {
		return store.Inspection{}, nil
	}
	found, err := await(ctx, s, func(ctx context.Context) (found store.Inspection, err error) {
		conn, err := s.newConn(ctx)
		if err != nil {
			return found, err
		}
		defer func() { _ = conn.Close() }()
		err = s.retry(ctx, func() error {
			found, err = dialect.Inspect(ctx, conn)
			return err
		})
		return found, err
	})
	return found, s.translate("inspect", err)
}

package sqlstore

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// schemaVersion is what this program sets up and understands. It rises with every change of the layout.
const schemaVersion = 2

// setUp makes the tables, unless they are there, and refuses those of another version. Several processes may do so at
// once: the first one does it, the others find it done.
func (s *Store) setUp(ctx context.Context) error {
	version, err := s.schemaVersion(ctx, s.query)
	if err != nil || version == schemaVersion {
		return err
	}
	return s.engine.setUp(ctx, func(run Run) error {
		// Somebody else may have been faster.
		if version, err := s.schemaVersion(ctx, run); err != nil || version == schemaVersion {
			return err
		}
		for _, text := range s.sql.create {
			if err := run(ctx, Statement{Text: text}); err != nil {
				return err
			}
		}
		return run(ctx, Statement{Text: s.sql.setVersion, Args: []any{int64(schemaVersion)}})
	})
}

// lookAtSchema is for those who only read: what is not there they do not make.
func (s *Store) lookAtSchema(ctx context.Context) error {
	version, err := s.schemaVersion(ctx, s.query)
	if err == nil && version == 0 {
		err = fmt.Errorf("%w: no replica has set up this cluster here yet", store.ErrInvalid)
	}
	return err
}

// query runs queries that only set variables, again when another connection was in the way.
func (s *Store) query(ctx context.Context, queries ...Statement) error {
	return s.retry(ctx, func() error { return s.engine.query(ctx, queries...) })
}

// schemaVersion is the version of the tables, 0 when there are none. Another one than this program's is an error.
func (s *Store) schemaVersion(ctx context.Context, run Run) (int, error) {
	there, version := 0, 0
	if err := run(ctx, Statement{
		Text: s.texts.numbered(s.texts.Tables), Args: []any{s.sql.schema},
		Row: func(row Row) error { return row.Scan(&there) },
	}); err != nil || there == 0 {
		return 0, err
	}
	if err := run(ctx, Statement{
		Text: s.sql.version, Row: func(row Row) error { return row.Scan(&version) },
	}); err != nil || version == 0 {
		return 0, err // made by halves, where a database cannot make tables in a transaction
	}
	return version, store.CheckSchema(s.sql.schema, version, schemaVersion)
}

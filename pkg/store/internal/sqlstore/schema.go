package sqlstore

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/store"
)

// schemaVersion is what this program sets up and understands. It rises with every change of the layout.
const schemaVersion = 2

// schema is the tables of one cluster.
type schema struct {
	*core
	database database
}

// setUp makes the tables, unless they are there, and refuses those of another version. Several processes may do so at
// once: the first one does it, the others find it done.
func (s *schema) setUp(ctx context.Context) error {
	missing, err := s.missing(ctx, s.query)
	if err != nil || len(missing) == 0 {
		return err
	}
	return s.database.setUp(ctx, func(run Run) error {
		missing, err := s.missing(ctx, run) // somebody else may have been faster
		if err != nil {
			return err
		}
		for _, st := range missing {
			if err := run(ctx, st); err != nil {
				return err
			}
		}
		return nil
	})
}

// missing are the statements that make what is not there: everything, or the tables of kinds and the indexes that are
// newer than the cluster. One more changes nothing for older programs, so it is no other version of the layout.
func (s *schema) missing(ctx context.Context, run Run) ([]Statement, error) {
	version, err := s.version(ctx, run)
	if err != nil {
		return nil, err
	}
	var there map[string]bool
	var all []Statement
	add := func(texts []string) {
		for _, text := range texts {
			all = append(all, Statement{Text: text})
		}
	}
	if version == schemaVersion {
		if there, err = s.present(ctx, run); err != nil {
			return nil, err
		}
	} else {
		add(s.sql.create)
	}
	for _, kind := range store.Kinds() {
		k := s.sql.kinds[kind]
		if !there[k.name] {
			add(k.create)
			continue
		}
		for _, index := range k.indexes {
			if !there[index.name] {
				add([]string{index.create})
			}
		}
	}
	if version != schemaVersion {
		all = append(all, Statement{Text: s.sql.setVersion, Args: []any{int64(schemaVersion)}})
	}
	return all, nil
}

// present says which tables of kinds and which indexes are there, by their names.
func (s *schema) present(ctx context.Context, run Run) (map[string]bool, error) {
	there := map[string]bool{}
	var asks []Statement
	ask := func(count, name string) {
		asks = append(asks, Statement{Text: s.texts.numbered(count), Args: []any{name}, Row: func(row Row) error {
			n := 0
			err := row.Scan(&n)
			there[name] = n > 0
			return err
		}})
	}
	for _, kind := range store.Kinds() {
		k := s.sql.kinds[kind]
		ask(s.texts.Tables, k.name)
		for _, index := range k.indexes {
			ask(s.texts.Indexes, index.name)
		}
	}
	return there, run(ctx, asks...)
}

// look is for those who only read: what is not there they do not make.
func (s *schema) look(ctx context.Context) error {
	version, err := s.version(ctx, s.query)
	if err == nil && version == 0 {
		err = fmt.Errorf("%w: no replica has set up this cluster here yet", store.ErrInvalid)
	}
	return err
}

// query runs queries that only set variables, again when another connection was in the way.
func (s *schema) query(ctx context.Context, queries ...Statement) error {
	return s.retry(ctx, func() error { return s.database.query(ctx, Common, queries...) })
}

// version is the version of the tables, 0 when there are none. Another one than this program's is an error.
func (s *schema) version(ctx context.Context, run Run) (int, error) {
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

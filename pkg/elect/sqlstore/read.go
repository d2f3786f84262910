package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// idsPerRead is how many ids one statement asks for.
const idsPerRead = 500

// Read implements [store.Store]. Readers see every commit, so each read is linearizable.
func (s *Store) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, err
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	res, err := s.reads(ctx, func(ctx context.Context) (store.Reply, error) {
		var res store.Reply
		for part := range slices.Chunk(ids, idsPerRead) {
			docs, err := s.byID(ctx, s.db, kind, part)
			if err != nil {
				return store.Reply{}, err
			}
			res.Docs = append(res.Docs, docs...)
		}
		return res, nil
	})
	return res, s.translate("read", err)
}

// List implements [store.Store]. It is one snapshot and never stale.
func (s *Store) List(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, err
	}
	text, args := s.sql.kinds[kind].query(q)
	res, err := s.reads(ctx, func(ctx context.Context) (store.Reply, error) {
		var res store.Reply
		var err error
		if q.CountOnly {
			err = s.db.QueryRowContext(ctx, text, args...).Scan(&res.Total)
		} else {
			res.Docs, err = s.queryDocs(ctx, s.db, kind, text, args...)
		}
		return res, err
	})
	return res, s.translate("list", err)
}

// reads runs f as one of a few readers, again when another connection was in the way.
func (s *Store) reads(ctx context.Context, f func(context.Context) (store.Reply, error)) (store.Reply, error) {
	return await(ctx, s, func(ctx context.Context) (store.Reply, error) {
		select {
		case s.reading <- struct{}{}:
			defer func() { <-s.reading }()
		case <-ctx.Done():
			return store.Reply{}, ctx.Err()
		}
		if err := s.dialect.Intact(); err != nil {
			return store.Reply{}, err
		}
		var res store.Reply
		var high int64
		err := s.retry(ctx, func() (err error) {
			if res, err = f(ctx); err == nil {
				err = s.db.QueryRowContext(ctx, s.sql.high, store.MaxMark).Scan(&high)
			}
			return err
		})
		// the machine's clock may have been set back: revisions go on above those given
		res.Now = max(s.dialect.Now(), high)
		res.Floor = res.Now
		return res, err
	})
}

// querier is a pool or one connection of it.
type querier interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

func (s *Store) byID(ctx context.Context, from querier, kind store.Kind, ids []string) ([]store.Doc, error) {
	text := `SELECT ` + columns + ` FROM ` + s.sql.kinds[kind].table + ` WHERE id IN (` + marks(len(ids)) +
		`) ORDER BY id`
	return s.queryDocs(ctx, from, kind, text, anys(ids)...)
}

// query is the statement of a List.
func (st kindStatements) query(q store.Query) (text string, args []any) {
	var where []string
	add := func(condition string, values ...any) {
		where = append(where, condition)
		args = append(args, values...)
	}
	if q.Group != "" {
		add(`grp = ?`, q.Group)
	}
	if len(q.Sessions) > 0 {
		add(`session IN (`+marks(len(q.Sessions))+`)`, anys(q.Sessions)...)
	}
	if len(q.Others) > 0 {
		add(st.others(len(q.Others)), anys(q.Others)...)
	}
	if len(q.States) > 0 {
		add(`state IN (`+marks(len(q.States))+`)`, anys(q.States)...)
	}
	if q.MinRev > 0 {
		add(`rev >= ?`, q.MinRev)
	}
	if q.Unsuspended {
		add(`suspended = 0`)
	}
	if q.Expired > 0 {
		add(`expires > 0 AND expires <= ?`, q.Expired)
	}
	if q.From != "" {
		add(`id >= ?`, q.From)
	}
	if q.To != "" {
		add(`id < ?`, q.To)
	}
	var b strings.Builder
	b.WriteString(`SELECT ` + selected(q) + ` FROM ` + st.table)
	if len(where) > 0 {
		b.WriteString(` WHERE ` + strings.Join(where, ` AND `))
	}
	if q.CountOnly {
		return b.String(), args
	}
	b.WriteString(` ORDER BY id`)
	if q.Reverse {
		b.WriteString(` DESC`)
	}
	if q.Limit > 0 {
		b.WriteString(` LIMIT ?`)
		args = append(args, q.Limit)
	}
	return b.String(), args
}

// others is a condition for sessions that are none of n. An index cannot be searched for what is not named. The
// sessions that there are come out of it first, each by one search for the next.
func (st kindStatements) others(n int) string {
	if !st.owned {
		return `session NOT IN (` + marks(n) + `)`
	}
	return strings.ReplaceAll(`session IN (WITH RECURSIVE owners(name) AS (SELECT min(session) FROM $table UNION ALL `+
		`SELECT (SELECT min(session) FROM $table WHERE session > owners.name) `+
		`FROM owners WHERE owners.name IS NOT NULL) `+
		`SELECT name FROM owners WHERE name IS NOT NULL AND name NOT IN (`, "$table", st.table) + marks(n) + `))`
}

func selected(q store.Query) string {
	switch {
	case q.CountOnly:
		return `count(*)`
	case q.NoBody:
		return strings.Replace(columns, "body", "''", 1)
	}
	return columns
}

func (s *Store) queryDocs(
	ctx context.Context, from querier, kind store.Kind, text string, args ...any,
) ([]store.Doc, error) {
	rows, err := from.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var docs []store.Doc
	for rows.Next() {
		d, err := scan(kind, rows)
		if err != nil {
			return nil, err
		}
		if s.found.usable(d) {
			docs = append(docs, d)
		}
	}
	return docs, rows.Err()
}

// scan reads a row whose columns are those of the constant.
func scan(kind store.Kind, from interface{ Scan(into ...any) error }) (store.Doc, error) {
	d := store.Doc{Kind: kind}
	var suspended int64 // edited out of band it may be any number
	err := from.Scan(
		&d.ID, &d.Rev, &d.WriterID.Session, &d.WriterID.Seq, &d.Group, &d.Session, &d.Next, &suspended, &d.State,
		&d.Count, &d.Expires, &d.Body,
	)
	d.Suspended = suspended != 0
	if len(d.Body) == 0 {
		d.Body = nil
	}
	return d, err
}

// row is d as the values of the columns. A body that is text is kept as one, for people who look.
func row(d store.Doc) []any {
	var body any = d.Body
	if utf8.Valid(d.Body) && bytes.IndexByte(d.Body, 0) < 0 {
		body = string(d.Body)
	}
	return []any{
		d.ID, d.Rev, d.WriterID.Session, d.WriterID.Seq, d.Group, d.Session, d.Next, d.Suspended, d.State, d.Count,
		d.Expires, body,
	}
}

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

func anys(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}

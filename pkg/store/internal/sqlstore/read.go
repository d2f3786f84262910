package sqlstore

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// idsPerRead is how many ids one statement asks for.
const idsPerRead = 500

// Get implements [dbstore.Backend]. Readers see every commit, so each read is linearizable.
func (b *Backend) Get(ctx context.Context, kind driver.Kind, ids []string) (dbstore.Page, error) {
	return b.reads(ctx, kind, func(page *dbstore.Page) []Statement {
		var queries []Statement
		for part := range slices.Chunk(ids, idsPerRead) {
			queries = append(queries, b.byID(kind, part, page))
		}
		return queries
	})
}

// Scan implements [dbstore.Backend]. It is never stale, and one snapshot.
func (b *Backend) Scan(ctx context.Context, kind driver.Kind, q driver.Query) (dbstore.Page, error) {
	text, args := b.ListStatement(kind, q)
	page, err := b.reads(ctx, kind, func(page *dbstore.Page) []Statement {
		if q.CountOnly {
			return []Statement{{Text: text, Args: args, Row: func(row Row) error { return row.Scan(&page.Total) }}}
		}
		return []Statement{b.docs(kind, text, args, page)}
	})
	page.More = q.Limit > 0 && len(page.Docs) == q.Limit
	return page, err
}

// reads runs queries whose rows go into the page, and one for the clock. The clock comes last: no revision that they
// show is of a later time. Sessions of a server are read without a look at another table. What their floor needs of it
// is as other reads showed it last: no session that was deleted comes back under its name.
func (b *Backend) reads(
	ctx context.Context, kind driver.Kind, queries func(into *dbstore.Page) []Statement,
) (page dbstore.Page, err error) {
	lane, text, args := Common, b.sql.clock, []any{int64(driver.MaxMark)}
	if kind == driver.KindSession && b.sql.now != "" {
		lane, text, args = Sessions, b.sql.now, nil
	}
	err = b.retry(ctx, func() error {
		page = dbstore.Page{}
		var now, high int64
		clock := Statement{Text: text, Args: args, Row: func(row Row) error { return row.Scan(&now, &high) }}
		err := b.database.query(ctx, lane, append(queries(&page), clock)...)
		switch {
		case lane == Sessions:
			high = b.high.Load()
		case err == nil:
			b.high.Store(high)
		}
		// the clock may have been set back: revisions go on above those given
		page.Wall = max(b.database.now(), now)
		page.Now = max(page.Wall, high)
		page.Floor = page.Now
		return err
	})
	return page, err
}

// byID is a query for the documents with these ids.
func (c *core) byID(kind driver.Kind, ids []string, into *dbstore.Page) Statement {
	in, args := c.among("id", ids)
	text := `SELECT ` + columns + ` FROM ` + c.sql.kinds[kind].table + ` WHERE ` + in + ` ORDER BY id`
	return c.docs(kind, c.texts.numbered(text), args, into)
}

// ListStatement is the statement of a List, for those who look at its plan.
func (c *core) ListStatement(kind driver.Kind, q driver.Query) (text string, args []any) {
	st := c.sql.kinds[kind]
	var where []string
	add := func(condition string, values ...any) {
		where = append(where, condition)
		args = append(args, values...)
	}
	if q.Group != "" {
		add(`grp = ?`, q.Group)
	}
	if len(q.Sessions) > 0 {
		in, values := c.among("session", q.Sessions)
		add(in, values...)
	}
	if len(q.Others) > 0 {
		in, values := c.others(st, q.Others)
		add(in, values...)
	}
	if len(q.States) > 0 {
		in, values := c.among("state", q.States)
		add(in, values...)
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
	// No ID has a NUL byte, which not every database takes as a parameter: what follows one in a bound does not count.
	if from, _, cut := strings.Cut(q.From, "\x00"); cut {
		add(`id > ?`, from)
	} else if from != "" {
		add(`id >= ?`, from)
	}
	if to, _, cut := strings.Cut(q.To, "\x00"); cut {
		add(`id <= ?`, to)
	} else if to != "" {
		add(`id < ?`, to)
	}
	var b strings.Builder
	b.WriteString(`SELECT ` + selected(q) + ` FROM ` + st.table)
	if len(where) > 0 {
		b.WriteString(` WHERE ` + strings.Join(where, ` AND `))
	}
	if q.CountOnly {
		return c.texts.numbered(b.String()), args
	}
	b.WriteString(` ORDER BY id`)
	if q.Reverse {
		b.WriteString(` DESC`)
	}
	if q.Limit > 0 {
		b.WriteString(` LIMIT ?`)
		args = append(args, int64(q.Limit))
	}
	return c.texts.numbered(b.String()), args
}

// among is a condition for a column that is one of some values.
func (c *core) among(column string, values []string) (text string, args []any) {
	if c.texts.Arrays {
		return column + ` = ANY(?)`, []any{values}
	}
	return column + ` IN (` + placeholders(len(values)) + `)`, anys(values)
}

// except is a condition for a column that is none of some values.
func (c *core) except(column string, values []string) (text string, args []any) {
	if c.texts.Arrays {
		return column + ` <> ALL(?)`, []any{values}
	}
	return column + ` NOT IN (` + placeholders(len(values)) + `)`, anys(values)
}

// others is a condition for sessions that are none of some. An index cannot be searched for what is not named. The
// sessions that there are come out of it first, each by one search for the next.
func (c *core) others(st kindStatements, sessions []string) (text string, args []any) {
	if !st.owned {
		return c.except("session", sessions)
	}
	if c.texts.Ranges {
		return between("session", slices.Compact(slices.Sorted(slices.Values(sessions))))
	}
	except, args := c.except("name", sessions)
	in, end := `session IN (`, `)`
	if c.texts.Arrays {
		in, end = `session = ANY(ARRAY(`, `))`
	}
	return in + strings.ReplaceAll(`WITH RECURSIVE owners(name) AS (SELECT min(session) FROM $table UNION ALL `+
		`SELECT (SELECT min(session) FROM $table WHERE session > owners.name) `+
		`FROM owners WHERE owners.name IS NOT NULL) `+
		`SELECT name FROM owners WHERE name IS NOT NULL AND `, "$table", st.table) + except + end, args
}

// between is a condition for a column that is none of some values, which are sorted: the ranges that they leave. An
// index can be searched for ranges.
func between(column string, values []string) (text string, args []any) {
	text = `(` + column + ` < ?`
	for i, value := range values {
		text += ` OR ` + column + ` > ?`
		args = append(args, value, value)
		if i < len(values)-1 {
			text += ` AND ` + column + ` < ?`
		}
	}
	return text + `)`, args
}

func selected(q driver.Query) string {
	switch {
	case q.CountOnly:
		return `count(*)`
	case q.NoBody:
		return strings.Replace(columns, "body", "''", 1)
	}
	return columns
}

// scan reads a row whose columns are those of the constant.
func scan(kind driver.Kind, from Row) (driver.Doc, error) {
	d := driver.Doc{Kind: kind}
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

// row is d as the values of the columns.
func (c *core) row(d driver.Doc) []any {
	body, suspended := any(d.Body), int64(0)
	switch {
	case c.texts.TextBody && utf8.Valid(d.Body) && bytes.IndexByte(d.Body, 0) < 0:
		body = string(d.Body)
	case d.Body == nil:
		body = []byte{}
	}
	if d.Suspended {
		suspended = 1
	}
	return []any{
		d.ID, d.Rev, d.WriterID.Session, d.WriterID.Seq, d.Group, d.Session, d.Next, suspended, d.State, d.Count,
		d.Expires, body,
	}
}

func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

func anys(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}

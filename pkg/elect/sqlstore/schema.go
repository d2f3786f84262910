package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// schemaVersion is what this program sets up and understands. It rises with every change of the layout.
const schemaVersion = 2

// statements are the SQL texts of one cluster.
type statements struct {
	schema              string // the name of the table that holds the version
	version, setVersion string
	create              []string
	kinds               map[store.Kind]kindStatements
	log                 logStatements
	high                string // the largest revision of a counter, and so of any lock that it counts
}

// kindStatements are those of one table. Columns are always in the order of columns.
type kindStatements struct {
	table, get, put, remove string
	owned                   bool // with an index on session
}

// logStatements are those of the log of what watchers may be notified of.
type logStatements struct{ add, drop, last, since string }

const columns = "id, rev, writer_session, writer_seq, grp, session, next, suspended, state, count, expires, body"

// columnOf is where a table has a field.
var columnOf = map[store.Field]string{
	store.FieldID: "id", store.FieldRev: "rev", store.FieldGroup: "grp", store.FieldSession: "session",
	store.FieldSuspended: "suspended", store.FieldExpires: "expires",
}

func newStatements(cluster string, texts Texts) statements {
	prefix := tablePrefix(cluster)
	name := func(s string) string { return `"` + prefix + s + `"` }
	fill := func(table, text string) string {
		return strings.NewReplacer(
			"$table", table, "$columns", columns, "$sequence", texts.Sequence, "$body", texts.Body, "$options",
			texts.Table, "$replace", texts.Replace,
		).Replace(text)
	}
	meta, log := name("schema"), name("notifications")
	st := statements{
		kinds:      map[store.Kind]kindStatements{},
		schema:     prefix + "schema",
		version:    fill(meta, `SELECT version FROM $table`),
		setVersion: fill(meta, `INSERT INTO $table (one, version) VALUES (1, ?)`),
		create: []string{
			fill(
				meta,
				`CREATE TABLE $table (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL) $options`,
			),
			fill(log, `CREATE TABLE $table (seq $sequence, kind TEXT NOT NULL, id TEXT NOT NULL, grp TEXT NOT NULL, `+
				`next TEXT NOT NULL) $options`),
		},
		log: logStatements{
			add:   fill(log, `INSERT INTO $table (kind, id, grp, next) VALUES (?, ?, ?, ?)`),
			drop:  fill(log, `DELETE FROM $table WHERE seq <= ?`),
			last:  fill(log, `SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM $table`),
			since: fill(log, `SELECT seq, kind, id, grp, next FROM $table WHERE seq > ? ORDER BY seq`),
		},
	}
	for _, info := range store.Table() {
		table := name(info.Plural)
		if info.Kind == store.KindGroup {
			st.high = fill(table, `SELECT coalesce(max(rev), 0) FROM $table WHERE rev <= ?`)
			info.Indexes = append(info.Indexes, []store.Field{store.FieldRev})
		}
		st.create = append(st.create, fill(table, `CREATE TABLE $table (id TEXT NOT NULL PRIMARY KEY, `+
			`rev INTEGER NOT NULL, writer_session TEXT NOT NULL, writer_seq INTEGER NOT NULL, grp TEXT NOT NULL, `+
			`session TEXT NOT NULL, next TEXT NOT NULL, suspended INTEGER NOT NULL, state TEXT NOT NULL, `+
			`count INTEGER NOT NULL, expires INTEGER NOT NULL, body $body) $options`))
		for i, fields := range info.Indexes {
			index := name(fmt.Sprintf("%s_%d", info.Plural, i+1))
			st.create = append(st.create, fill(table, `CREATE INDEX `+index+` ON $table (`+on(fields)))
		}
		st.kinds[info.Kind] = kindStatements{
			table:  table,
			get:    fill(table, `SELECT $columns FROM $table WHERE id = ?`),
			put:    fill(table, `$replace $table ($columns) VALUES (`+marks(strings.Count(columns, ",")+1)+`)`),
			remove: fill(table, `DELETE FROM $table WHERE id = ?`),
			owned:  info.Indexed(store.FieldSession),
		}
	}
	return st
}

// on is the end of a CREATE INDEX. Only what expires is in an index on that, so that heartbeats do not touch it.
func on(fields []store.Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = columnOf[f]
	}
	text := strings.Join(names, ", ") + `)`
	if fields[0] == store.FieldExpires {
		text += ` WHERE expires > 0`
	}
	return text
}

// tablePrefix marks capital letters, since SQL does not distinguish the cases of table names everywhere.
func tablePrefix(cluster string) string {
	var b strings.Builder
	for _, r := range cluster {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('+')
		}
		b.WriteRune(r)
	}
	return b.String() + "_"
}

// setUp makes the tables, unless they are there, and refuses those of another version. Several processes may do so at
// once: the first one does it, the others find it done.
func (s *Store) setUp(ctx context.Context) (struct{}, error) {
	var none struct{}
	version, err := s.findSchema(ctx)
	if err != nil || version == schemaVersion {
		return none, err
	}
	w := <-s.writer
	defer func() { s.writer <- w }()
	return none, w.transaction(ctx, func(ctx context.Context) error {
		// Somebody else may have been faster.
		if version, err := s.schemaVersion(ctx, w.conn); err != nil || version == schemaVersion {
			return err
		}
		for _, text := range s.sql.create {
			if err := w.exec(ctx, text); err != nil {
				return err
			}
		}
		return w.exec(ctx, s.sql.setVersion, schemaVersion)
	})
}

// lookAtSchema is for those who only read: what is not there they do not make.
func (s *Store) lookAtSchema(ctx context.Context) (struct{}, error) {
	version, err := s.findSchema(ctx)
	if err == nil && version == 0 {
		err = fmt.Errorf("%w: no replica has set up this cluster here yet", store.ErrInvalid)
	}
	return struct{}{}, err
}

// findSchema prepares the database and returns the version of the tables, 0 when there are none.
func (s *Store) findSchema(ctx context.Context) (int, error) {
	conn, err := s.newConn(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	if err := s.retry(ctx, func() error { return s.dialect.Prepare(ctx, conn) }); err != nil {
		return 0, err
	}
	return s.schemaVersion(ctx, conn)
}

// schemaVersion is the version of the tables, 0 when there are none. Another one than this program's is an error.
func (s *Store) schemaVersion(ctx context.Context, conn *sql.Conn) (int, error) {
	var there, version int
	err := s.retry(ctx, func() error {
		if err := conn.QueryRowContext(ctx, s.texts.Tables, s.sql.schema).Scan(&there); err != nil || there == 0 {
			return err
		}
		return conn.QueryRowContext(ctx, s.sql.version).Scan(&version)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, err
	case there == 0:
		return 0, nil
	}
	return version, store.CheckSchema(s.sql.schema, version, schemaVersion)
}

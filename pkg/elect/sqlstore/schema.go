package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// schemaVersion is what this program sets up and understands. It rises with every change that an older program would
// misunderstand.
const schemaVersion = 1

// statements are the SQL texts of one cluster.
type statements struct {
	schema              string // the name of the table that holds the version
	version, setVersion string
	create              []string
	kinds               map[store.Kind]kindStatements
	high                string // the largest revision of a counter, and so of any lock it tells of
	hintAdd, hintDrop   string
	hintLast, hintSince string
}

// kindStatements are those of one table. Columns are always in the order of columns.
type kindStatements struct {
	table, get, put, remove string
}

const columns = "id, rev, stamp_session, stamp_seq, grp, session, next, parked, state, count, body"

// indexes beside the one on id: only what queries of the protocol ask for, since each costs a page per write.
var indexes = map[store.Kind][]string{
	store.KindLock:  {"session", "grp, rev"},
	store.KindGroup: {"rev"},
	store.KindValue: {"grp, id"},
	store.KindEvent: {"grp, id"},
}

func newStatements(cluster string) statements {
	prefix := tablePrefix(cluster)
	name := func(s string) string { return `"` + prefix + s + `"` }
	fill := func(table, text string) string {
		return strings.NewReplacer("$table", table, "$columns", columns).Replace(text)
	}
	meta, hints := name("schema"), name("hints")
	st := statements{
		kinds:      map[store.Kind]kindStatements{},
		schema:     prefix + "schema",
		version:    fill(meta, `SELECT version FROM $table`),
		setVersion: fill(meta, `INSERT INTO $table (one, version) VALUES (1, ?)`),
		create: []string{
			fill(meta, `CREATE TABLE $table (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL) STRICT`),
			// AUTOINCREMENT: numbers are not used again when the newest line was dropped.
			fill(hints, `CREATE TABLE $table (seq INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, id TEXT NOT NULL, next TEXT NOT NULL) STRICT`),
		},
		high:      fill(name(string(store.KindGroup)), `SELECT ifnull(max(rev), 0) FROM $table WHERE rev <= ?`),
		hintAdd:   fill(hints, `INSERT INTO $table (kind, id, next) VALUES (?, ?, ?)`),
		hintDrop:  fill(hints, `DELETE FROM $table WHERE seq <= ?`),
		hintLast:  fill(hints, `SELECT ifnull(min(seq), 0), ifnull(max(seq), 0) FROM $table`),
		hintSince: fill(hints, `SELECT seq, kind, id FROM $table WHERE seq > ? AND (kind <> 'lock' OR next = ?) ORDER BY seq`),
	}
	for _, kind := range store.Kinds() {
		table := name(string(kind))
		st.create = append(st.create, fill(table, `CREATE TABLE $table (id TEXT NOT NULL PRIMARY KEY, rev INTEGER NOT NULL, `+
			`stamp_session TEXT NOT NULL, stamp_seq INTEGER NOT NULL, grp TEXT NOT NULL, session TEXT NOT NULL, next TEXT NOT NULL, `+
			`parked INTEGER NOT NULL, state TEXT NOT NULL, count INTEGER NOT NULL, body TEXT NOT NULL) STRICT`))
		for i, on := range indexes[kind] {
			index := name(fmt.Sprintf("%s_%d", kind, i+1))
			st.create = append(st.create, fill(table, `CREATE INDEX `+index+` ON $table (`+on+`)`))
		}
		st.kinds[kind] = kindStatements{
			table:  table,
			get:    fill(table, `SELECT $columns FROM $table WHERE id = ?`),
			put:    fill(table, `INSERT OR REPLACE INTO $table ($columns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
			remove: fill(table, `DELETE FROM $table WHERE id = ?`),
		}
	}
	return st
}

// tablePrefix marks capital letters, since SQLite does not tell the cases of table names apart.
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

// setUp makes the tables, unless they are there, and refuses those of a newer version. Several processes may do so at
// once: the first one does it, the others find it done.
func (s *Store) setUp(ctx context.Context) (struct{}, error) {
	var none struct{}
	conn, err := s.newConn(ctx)
	if err != nil {
		return none, err
	}
	defer func() { _ = conn.Close() }()
	err = retry(ctx, func() error { return wal(ctx, conn) })
	if err != nil {
		return none, err
	}
	version, err := s.schemaVersion(ctx, conn)
	if err != nil || version == schemaVersion {
		return none, err
	}
	w := <-s.writer
	defer func() { s.writer <- w }()
	return none, s.transaction(ctx, w, func(ctx context.Context) error {
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

// wal makes sure that the file is in WAL mode, where readers and a writer do not wait for each other. It stays so.
func wal(ctx context.Context, conn *sql.Conn) error {
	var mode string
	if err := conn.QueryRowContext(ctx, `PRAGMA journal_mode=WAL`).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: the file system allows journal mode %q only, want wal", store.ErrInvalid, mode)
	}
	return nil
}

// schemaVersion is the version of the tables, 0 when there are none. A newer one is an error.
func (s *Store) schemaVersion(ctx context.Context, conn *sql.Conn) (int, error) {
	var there, version int
	err := retry(ctx, func() error {
		const tables = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?`
		if err := conn.QueryRowContext(ctx, tables, s.sql.schema).Scan(&there); err != nil || there == 0 {
			return err
		}
		return conn.QueryRowContext(ctx, s.sql.version).Scan(&version)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, err
	case version > schemaVersion:
		return 0, fmt.Errorf("%w: the tables have version %d, this program knows up to %d: upgrade it", store.ErrSchema, version, schemaVersion)
	}
	return version, nil
}

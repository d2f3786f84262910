//go:build linux

package e2e_test

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteHand writes to the tables of a SQLite file.
type sqliteHand struct{ db *sql.DB }

func newSQLiteHand(uri string) hand {
	GinkgoHelper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(uri, "sqlite:")+"?_pragma=busy_timeout(10000)")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = db.Close() })
	return sqliteHand{db}
}

func table(kind string) string { return `"` + edited + "_" + kind + `s"` }

// columns are those of every table.
var columns = []string{
	"id", "rev", "writer_session", "writer_seq", "grp", "session", "next", "suspended", "state", "count", "expires",
	"body",
}

// column is a field's name in a table.
func column(field string) string {
	switch field {
	case "_id":
		return "id"
	case "group":
		return "grp"
	case "writer":
		return "writer_session"
	}
	return field
}

// took says whether the table took a change. A table that refuses malformed text by its types is as good as a hand that
// does not write it.
func took(err error) bool {
	GinkgoHelper()
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xff == sqlite3.SQLITE_CONSTRAINT {
		return false
	}
	Expect(err).NotTo(HaveOccurred())
	return true
}

// cell is a value as a table may hold it: nothing that has parts.
func cell(value any) (any, bool) {
	switch value.(type) {
	case unset:
		return nil, true
	case []any, object:
		return nil, false
	}
	return value, true
}

func (h sqliteHand) edit(ctx context.Context, kind, id string, fields object) bool {
	GinkgoHelper()
	var sets []string
	var args []any
	for field, value := range fields {
		var ok bool
		if value, ok = cell(value); !ok || !slices.Contains(columns, column(field)) {
			return false
		}
		sets = append(sets, column(field)+" = ?")
		args = append(args, value)
	}
	_, err := h.db.ExecContext(
		ctx, `UPDATE `+table(kind)+` SET `+strings.Join(sets, ", ")+` WHERE id = ?`, append(args, id)...,
	)
	return took(err)
}

func (h sqliteHand) raise(ctx context.Context, kind, id string, by int64) {
	GinkgoHelper()
	_, err := h.db.ExecContext(ctx, `UPDATE `+table(kind)+` SET rev = rev + ? WHERE id = ?`, by, id)
	Expect(err).NotTo(HaveOccurred())
}

func (h sqliteHand) insert(ctx context.Context, kind string, doc object) bool {
	GinkgoHelper()
	all := object{
		"id": "", "rev": 1, "writer_session": "", "writer_seq": 0, "grp": "", "session": "", "next": "", "suspended": 0,
		"state": "", "count": 0, "expires": 0, "body": "",
	}
	for field, value := range doc {
		value, ok := cell(value)
		if _, known := all[column(field)]; !ok || !known {
			return false
		}
		all[column(field)] = value
	}
	names := slices.Sorted(maps.Keys(all))
	var args []any
	for _, name := range names {
		args = append(args, all[name])
	}
	marks := strings.TrimSuffix(strings.Repeat("?,", len(names)), ",")
	_, err := h.db.ExecContext(
		ctx, `INSERT OR REPLACE INTO `+table(kind)+` (`+strings.Join(names, ", ")+`) VALUES (`+marks+`)`, args...,
	)
	return took(err)
}

func (h sqliteHand) read(ctx context.Context, kind, id string) object {
	GinkgoHelper()
	values := make([]any, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	err := h.db.QueryRowContext(
		ctx, `SELECT `+strings.Join(columns, ", ")+` FROM `+table(kind)+` WHERE id = ?`, id,
	).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	doc := object{}
	for i, name := range columns {
		doc[name] = values[i]
	}
	doc["_id"], doc["group"] = doc["id"], doc["grp"]
	delete(doc, "id")
	delete(doc, "grp")
	return doc
}

func (h sqliteHand) ids(ctx context.Context, kind string) []string {
	GinkgoHelper()
	rows, err := h.db.QueryContext(ctx, `SELECT id FROM `+table(kind))
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = rows.Close() }()
	var ids []string
	for rows.Next() {
		var id string
		Expect(rows.Scan(&id)).To(Succeed())
		ids = append(ids, id)
	}
	Expect(rows.Err()).NotTo(HaveOccurred())
	return ids
}

func (h sqliteHand) remove(ctx context.Context, kind, id string) {
	GinkgoHelper()
	_, err := h.db.ExecContext(ctx, `DELETE FROM `+table(kind)+` WHERE id = ?`, id)
	Expect(err).NotTo(HaveOccurred())
}

func (h sqliteHand) clear(ctx context.Context, kind string) {
	GinkgoHelper()
	_, err := h.db.ExecContext(ctx, `DELETE FROM `+table(kind))
	Expect(err).NotTo(HaveOccurred())
}

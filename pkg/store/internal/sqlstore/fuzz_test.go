package sqlstore_test

import (
	"path/filepath"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

// FuzzRow: whatever a row holds that its table takes, it hides no other row. It is handed on only if it is a document,
// and gives way to a creation if it is none.
func FuzzRow(f *testing.F) {
	f.Add("g/k", int64(5), "s", int64(3), "g", "s", "n", int64(1), "live", int64(7), []byte(`{"a":1}`))
	f.Add("", int64(0), "", int64(0), "", "", "", int64(0), "", int64(0), []byte(nil))
	f.Add(
		"g/\x00\xff", int64(-1), "\xff", int64(-1), "\x00", "s", "n", int64(17), "zombie", int64(-7), []byte("no JSON"),
	)
	f.Add("g/k", int64(1)<<62, "s", int64(3), "g", "s", "n", int64(-1), "dead", int64(1)<<62, []byte{0, 255})
	s, err := sqlite.Open(f.Context(), filepath.Join(f.TempDir(), "store.db"), sqlite.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close(f.Context()) })
	beside := driver.Change{
		Doc: driver.Doc{Kind: driver.KindLock, ID: "beside", Rev: 1, WriterID: driver.WriterID{Session: "s", Seq: 1}},
	}
	if _, err := s.Apply(f.Context(), beside); err != nil {
		f.Fatal(err)
	}
	const insert = `INSERT OR REPLACE INTO "default_locks" (` + sqlstore.Columns +
		`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)`
	f.Fuzz(func(
		t *testing.T, id string, rev int64, writer string, seq int64, group, session, next string, suspended int64,
		state string, count int64, body []byte,
	) {
		if id == "beside" {
			return
		}
		const others = `DELETE FROM "default_locks" WHERE id <> 'beside'`
		if _, err := sqlstore.Of(s).DB().ExecContext(t.Context(), others); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlstore.Of(s).DB().ExecContext(
			t.Context(), insert, id, rev, writer, seq, group, session, next, suspended, state, count, string(body),
		); err != nil {
			return // the table does not take it
		}
		res, err := s.List(t.Context(), driver.KindLock, driver.Query{})
		if err != nil || len(res.Docs) == 0 {
			t.Fatalf("found %d, %v", len(res.Docs), err)
		}
		there := false
		for _, d := range res.Docs {
			if err := driver.CheckFound(d); err != nil {
				t.Errorf("handed on: %v", err)
			}
			if d.ID == id {
				there = d.Rev == rev && d.Session == session && d.Suspended == (suspended != 0) &&
					string(d.Body) == string(body)
			}
		}
		good := driver.CheckFound(driver.Doc{ID: id, Rev: rev}) == nil
		if there != good {
			t.Errorf("found %v, want %v", there, good)
		}
		mine := driver.WriterID{Session: "me", Seq: 1}
		outs, err := s.Apply(
			t.Context(), driver.Change{Doc: driver.Doc{Kind: driver.KindLock, ID: id, Rev: 1, WriterID: mine}},
		)
		if err == nil && (outs[0].Status == driver.Applied) == good &&
			(driver.WriterID{Session: writer, Seq: seq}) != mine {
			t.Errorf("a creation ended with %+v, although a document is there: %v", outs[0], good)
		}
	})
}

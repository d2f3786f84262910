package sqlstore_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

// What people write into the tables manually never hides the other rows, and gives way to what is created in its
// place.
func TestMalformedOutOfBand(t *testing.T) {
	var log []string
	logger := funcr.New(func(_, args string) { log = append(log, args) }, funcr.Options{})
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), sqlite.Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	var seq int64
	apply := func(want store.Status, c store.Change) {
		t.Helper()
		seq++
		c.Doc.WriterID = store.WriterID{Session: "s", Seq: seq}
		outs, err := s.Apply(t.Context(), c)
		if err != nil || outs[0].Status != want {
			t.Fatalf("%+v: %+v, %v; want status %d", c, outs, err, want)
		}
	}
	put := func(id string, ifRev int64) store.Change {
		return store.Change{IfRev: ifRev, Doc: store.Doc{Kind: store.KindLock, ID: id, Group: "g", Rev: ifRev + 1}}
	}
	apply(store.Applied, put("g/good", 0))
	for i, edit := range []string{
		"rev = 0", "rev = -5", "rev = 9223372036854775807", // none any more
		// odd, and readable
		"suspended = 17", "session = cast(x'ff' as text)", "body = 'no JSON'", "state = 'zombie', next = 'no one'",
	} {
		id := fmt.Sprint("g/", i)
		apply(store.Applied, put(id, 0))
		exec(t, s, `UPDATE "default_locks" SET `+edit+` WHERE id = '`+id+`'`)
	}
	exec(t, s, `INSERT INTO "default_locks" SELECT '', 1, '', 0, grp, session, next, suspended, state, count, `+
		`expires, body FROM "default_locks" WHERE id = 'g/good'`)
	for range 2 {
		res, err := s.List(t.Context(), store.KindLock, store.Query{})
		var ids []string
		for _, d := range res.Docs {
			ids = append(ids, d.ID)
		}
		if got := strings.Join(ids, " "); err != nil || got != "g/3 g/4 g/5 g/6 g/good" {
			t.Fatalf("found %s, %v", got, err)
		}
	}
	if len(log) != 4 {
		t.Errorf("%d lines of log, want one for each of four:\n%s", len(log), strings.Join(log, "\n"))
	}
	for i := range 3 {
		apply(store.Applied, put(fmt.Sprint("g/", i), 0))
		apply(store.Refused, put(fmt.Sprint("g/", i), 0))
	}
	increment := store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: "g"}}
	for _, edit := range []string{"count = -7", "count = 9223372036854775807", "rev = 9007199254740992", "rev = -1"} {
		apply(store.Applied, increment)
		exec(t, s, `UPDATE "default_groups" SET `+edit)
		apply(store.Applied, increment)
		if res, err := s.Read(t.Context(), store.KindGroup, "g"); err != nil || len(res.Docs) != 1 ||
			res.Docs[0].Count < 1 {
			t.Errorf("after %s: %+v, %v", edit, res, err)
		}
	}
}

func exec(t *testing.T, s store.Store, text string) {
	t.Helper()
	if _, err := sqlstore.Of(s).DB().ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

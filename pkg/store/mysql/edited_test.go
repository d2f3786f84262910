package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// Rows that people edited hide no others, and give way to what is created in their place.
func TestEditedRows(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	var log []string
	logger := funcr.New(func(_, args string) { log = append(log, args) }, funcr.Options{})
	s := storetest.Open(t, store.Config{URI: uri, Logger: logger})
	edit := func(text string) { exec(t, server, "USE "+databaseOf(uri)+"; "+text) }
	seq := int64(0)
	want := func(status store.Status, id string, ifRev int64) {
		t.Helper()
		seq++
		if out := one(t, t.Context(), s, put(id, ifRev, seq)); out.Status != status {
			t.Fatalf("%s at %d: %+v; want %d", id, ifRev, out, status)
		}
	}
	want(store.Applied, "g/good", 0)
	for i, set := range []string{
		"rev = 0", "rev = -5", "rev = 9223372036854775807", // none any more
		// odd, and readable
		"suspended = 17", "session = 0xff", "body = 'no JSON'", "state = 'zombie', next = 'no one'",
	} {
		id := fmt.Sprint("g/", i)
		want(store.Applied, id, 0)
		edit(`UPDATE default_locks SET ` + set + ` WHERE id = '` + id + `'`)
	}
	edit(`INSERT INTO default_locks SELECT '', 1, '', 0, grp, session, next, suspended, state, count, expires, body ` +
		`FROM default_locks WHERE id = 'g/good'`)
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
		want(store.Applied, fmt.Sprint("g/", i), 0)
		want(store.Refused, fmt.Sprint("g/", i), 0)
	}
	increment := store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: "g", Rev: 7}}
	for _, set := range []string{
		"count = -7", "count = 9223372036854775807", "rev = 9007199254740992", "rev = 9007199254740993", "rev = -1",
	} {
		for range 2 {
			if out := one(t, t.Context(), s, increment); out.Status != store.Applied {
				t.Fatalf("increment before %s: %+v", set, out)
			}
			edit(`UPDATE default_groups SET ` + set)
		}
		if out := one(t, t.Context(), s, increment); out.Status != store.Applied {
			t.Fatalf("increment after %s: %+v", set, out)
		}
		if res, err := s.Read(t.Context(), store.KindGroup, "g"); err != nil || len(res.Docs) != 1 ||
			res.Docs[0].Count < 1 || res.Docs[0].Rev < 7 {
			t.Errorf("after %s: %+v, %v", set, res, err)
		}
	}
}

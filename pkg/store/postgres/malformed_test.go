package postgres_test

import (
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// What people write into the tables manually hides no other row, and gives way to what is created in its place. A
// counter goes on, whatever it was set to.
func TestMalformedOutOfBand(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	s := storetest.Open(t, store.Config{URI: uri})
	edit := func(text string) {
		t.Helper()
		if err := postgres.Exec(t.Context(), uri, text); err != nil {
			t.Fatal(err)
		}
	}
	var seq int64
	put := func(id string, want store.Status) {
		t.Helper()
		seq++
		out := calls.One(t, s, store.Change{Doc: store.Doc{
			Kind: store.KindLock, ID: id, Rev: 1, WriterID: store.WriterID{Session: "s", Seq: seq},
		}})
		if out.Status != want {
			t.Fatalf("%s: %+v, want status %d", id, out, want)
		}
	}
	put("g/good", store.Applied)
	for i, value := range []string{"0", "-5", "9223372036854775807"} {
		id := fmt.Sprint("g/", i)
		put(id, store.Applied)
		edit(`UPDATE default_locks SET rev = ` + value + ` WHERE id = '` + id + `'`)
		if reply, err := s.List(t.Context(), store.KindLock, store.Query{}); err != nil || len(reply.Docs) != i+1 {
			t.Fatalf("beside rev %s: %+v, %v; want %d", value, reply.Docs, err, i+1)
		}
		put(id, store.Applied) // in its place
		put(id, store.Refused)
	}
	for _, set := range []string{
		"count = -7", "count = 9223372036854775807", "rev = 9007199254740992", "rev = -1", "rev = 9223372036854775807",
	} {
		if out := calls.One(t, s, increment("g")); out.Status != store.Applied {
			t.Fatalf("before %s: %+v", set, out)
		}
		edit(`UPDATE default_groups SET ` + set)
		if out := calls.One(t, s, increment("g")); out.Status != store.Applied {
			t.Fatalf("after %s: %+v", set, out)
		}
		reply, err := s.Read(t.Context(), store.KindGroup, "g")
		if err != nil || len(reply.Docs) != 1 || reply.Docs[0].Count < 1 || reply.Docs[0].Count >= store.MaxRev {
			t.Errorf("after %s: %+v, %v", set, reply, err)
		}
	}
}

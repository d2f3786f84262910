package zkstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/pkg/elect/store"
	"github.com/shardctl/shardctl/pkg/elect/zkstore"
)

// What lists of 10,000 locks read: each lock once, then nothing, then what changed and the directory that it is in.
func TestListsOfManyLocks(t *testing.T) {
	const n, owners = 10_000, 10
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	writer := open(t, zkstore.Options{URI: uri, OperationTimeout: 3 * patient})
	changes := make([]store.Change, n)
	for i := range changes {
		d := lock(fmt.Sprintf("reports/customer-%06d/monthly", i))
		d.Session = fmt.Sprint("session-", i%owners)
		changes[i] = put(d, 0)
	}
	begin := time.Now()
	outs, err := writer.Apply(t.Context(), changes...)
	must(t, err)
	for i, out := range outs {
		if out.Status != store.Applied {
			t.Fatalf("lock %d: %+v", i, out)
		}
	}
	t.Logf("%d locks created in %v", n, time.Since(begin))

	s := open(t, zkstore.Options{URI: uri, OperationTimeout: 3 * patient})
	list := func(what string, want int, q store.Query) (looked int64) {
		t.Helper()
		before, begin := s.Looked(), time.Now()
		r, err := s.List(t.Context(), store.KindLock, q)
		must(t, err)
		if len(r.Docs) != want {
			t.Fatalf("%s: %d locks, want %d", what, len(r.Docs), want)
		}
		looked = s.Looked() - before
		t.Logf("%s: %v, %d names and documents read", what, time.Since(begin), looked)
		return looked
	}
	if looked := list("the first list", n, store.Query{}); looked != 2*n {
		t.Errorf("the first list read %d names and documents, want each once", looked)
	}
	if looked := list("all again", n, store.Query{}); looked != 0 {
		t.Errorf("a list without a change read %d names and documents", looked)
	}
	if looked := list("of one session", n/owners, store.Query{Sessions: []string{"session-3"}}); looked != 0 {
		t.Errorf("a list without a change read %d names and documents", looked)
	}
	next := put(changes[7].Doc, 1)
	next.Doc.Session = "other"
	apply(t.Context(), t, writer, store.Applied, next)
	// One directory of 64, and one document.
	if looked := list("after one change", 1, store.Query{Sessions: []string{"other"}}); looked == 0 || looked > n/32 {
		t.Errorf("a list after one change read %d names and documents, want those of one directory", looked)
	}
}

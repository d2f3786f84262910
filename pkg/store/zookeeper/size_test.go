package zookeeper_test

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/pkg/store/zookeeper"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// What lists of 10,000 locks read: each lock once, then nothing, then what changed and the directory that it is in.
func TestListsOfManyLocks(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "a real server")
	const n, owners = 10_000, 10
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	writer := storetest.Open(t, driver.Config{URI: uri, Timeout: 3 * patient})
	changes := make([]driver.Change, n)
	for i := range changes {
		d := lock(fmt.Sprintf("reports/customer-%06d/monthly", i))
		d.Session = fmt.Sprint("session-", i%owners)
		changes[i] = put(d, 0)
	}
	begin := time.Now()
	outs, err := writer.Apply(t.Context(), changes...)
	must(t, err)
	for i, out := range outs {
		if out.Status != driver.Applied {
			t.Fatalf("lock %d: %+v", i, out)
		}
	}
	t.Logf("%d locks created in %v", n, time.Since(begin))

	s := storetest.Open(t, driver.Config{URI: uri, Timeout: 3 * patient})
	list := func(what string, want int, q driver.Query) (looked int64) {
		t.Helper()
		before, begin := zookeeper.Looked(s), time.Now()
		r, err := s.List(t.Context(), driver.KindLock, q)
		must(t, err)
		if len(r.Docs) != want {
			t.Fatalf("%s: %d locks, want %d", what, len(r.Docs), want)
		}
		looked = zookeeper.Looked(s) - before
		t.Logf("%s: %v, %d names and documents read", what, time.Since(begin), looked)
		return looked
	}
	if looked := list("the first list", n, driver.Query{}); looked != 2*n {
		t.Errorf("the first list read %d names and documents, want each once", looked)
	}
	if looked := list("all again", n, driver.Query{}); looked != 0 {
		t.Errorf("a list without a change read %d names and documents", looked)
	}
	if looked := list("of one session", n/owners, driver.Query{Sessions: []string{"session-3"}}); looked != 0 {
		t.Errorf("a list without a change read %d names and documents", looked)
	}
	next := put(changes[7].Doc, 1)
	next.Doc.Session = "other"
	apply(t.Context(), t, writer, driver.Applied, next)
	// One directory of 64, and one document.
	if looked := list("after one change", 1, driver.Query{Sessions: []string{"other"}}); looked == 0 || looked > n/32 {
		t.Errorf("a list after one change read %d names and documents, want those of one directory", looked)
	}
}

// Locks of one directory whose names are more than a megabyte, the limit of Java's clients (jute.maxbuffer). Lists come
// all the same: servers bound requests by it, not replies, and the Go client takes what comes.
func TestDirectoryOfMoreThanAMegabyte(t *testing.T) {
	const limit = 1 << 20
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	s := storetest.Open(t, driver.Config{URI: uri, Timeout: 3 * patient})
	var changes []driver.Change
	dir, size := "", 0
	for i := 0; size <= limit+limit/10; i++ {
		d := lock(fmt.Sprintf("%0*d", driver.MaxText, i))
		in, name := path.Split(zookeeper.Entry(s, d.Kind, d.ID, 1))
		if dir == "" {
			dir = in
		}
		if in == dir {
			changes, size = append(changes, put(d, 0)), size+len(name)
		}
	}
	outs, err := s.Apply(t.Context(), changes...)
	must(t, err)
	for i, out := range outs {
		if out.Status != driver.Applied {
			t.Fatalf("lock %d: %+v", i, out)
		}
	}
	conn, _ := raw(t, uri)
	names, _, err := conn.Children(strings.TrimSuffix(dir, "/"))
	must(t, err)
	if sum := len(strings.Join(names, "")); len(names) != len(changes) || sum <= limit {
		t.Fatalf("%d names of %d bytes, want %d of more than %d", len(names), sum, len(changes), limit)
	}
	for name, s := range map[string]driver.Store{
		"who wrote them": s, "another": storetest.Open(t, driver.Config{URI: uri, Timeout: 3 * patient}),
	} {
		r, err := s.List(t.Context(), driver.KindLock, driver.Query{NoBody: true})
		must(t, err)
		if len(r.Docs) != len(changes) {
			t.Errorf("%s lists %d locks, want %d", name, len(r.Docs), len(changes))
		}
	}
	apply(t.Context(), t, s, driver.Applied, put(changes[0].Doc, 1))
	r, err := s.List(t.Context(), driver.KindLock, driver.Query{MinRev: 2})
	must(t, err)
	if len(r.Docs) != 1 {
		t.Errorf("%d locks after a change, want it alone", len(r.Docs))
	}
}

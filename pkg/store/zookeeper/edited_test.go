package zookeeper_test

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/internal/testservers"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/zookeeper"
)

// Whatever of a document's znodes somebody edits: it is absent or as it was, and the next creation or change puts all
// of them right.
func TestEditedZnodesAreFixed(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	s := open(t, zookeeper.Options{URI: uri, OperationTimeout: patient})
	conn, _ := raw(t, uri)
	path := func(id string) string { return zookeeper.Document(s, store.KindLock, id) }
	entry := func(id string) string { return zookeeper.Entry(s, store.KindLock, id, 1) }
	tests := map[string]struct {
		edit   func(id string) error
		absent bool
	}{
		"data are no JSON": {absent: true, edit: func(id string) error {
			_, err := conn.Set(path(id), []byte("junk"), -1)
			return err
		}},
		"revision gone": {edit: func(id string) error { return conn.Delete(path(id)+"/1", -1) }},
		"entry gone":    {edit: func(id string) error { return conn.Delete(entry(id), -1) }},
		"document gone": {absent: true, edit: func(id string) error {
			if err := conn.Delete(path(id)+"/1", -1); err != nil {
				return err
			}
			return conn.Delete(path(id), -1)
		}},
		"foreign child": {edit: func(id string) error {
			_, err := conn.Create(path(id)+"/note", nil, 0, zk.WorldACL(zk.PermAll))
			return err
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			id := "g/" + name
			apply(t.Context(), t, s, store.Applied, put(lock(id), 0))
			must(t, tt.edit(id))
			found := readOne(t, s, store.KindLock, id)
			if (found == nil) != tt.absent {
				t.Fatalf("found %+v, want absent: %t", found, tt.absent)
			}
			ifRev := int64(1)
			if tt.absent {
				ifRev = 0
			}
			next := put(lock(id), ifRev)
			next.Doc.Rev = 7
			apply(t.Context(), t, s, store.Applied, next)
			apply(t.Context(), t, s, store.Applied, put(lock(id), 7))
			r, err := s.List(t.Context(), store.KindLock, store.Query{From: id, To: id + "~"})
			must(t, err)
			if len(r.Docs) != 1 || r.Docs[0].Rev != 8 {
				t.Fatalf("listed %+v, want one at revision 8", r.Docs)
			}
			c := store.Change{Op: store.Delete, IfRev: 8, Doc: lock(id)}
			apply(t.Context(), t, s, store.Applied, c)
			if there, _, err := conn.Exists(path(id)); there || err != nil {
				t.Fatalf("deleted: %t, %v", there, err)
			}
		})
	}
}

// A document deleted with all its children by a tool leaves a line of the index. It gives no old writer a way back.
func TestOldWriterAfterDeletionOutOfBand(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	s := open(t, zookeeper.Options{URI: uri, OperationTimeout: patient})
	conn, _ := raw(t, uri)
	apply(t.Context(), t, s, store.Applied, put(lock("g/a"), 0))
	path := zookeeper.Document(s, store.KindLock, "g/a")
	must(t, conn.Delete(path+"/1", -1))
	must(t, conn.Delete(path, -1))
	created := put(lock("g/a"), 0)
	created.Doc.Rev = 50
	apply(t.Context(), t, s, store.Applied, created)
	late := put(lock("g/a"), 1)
	apply(t.Context(), t, s, store.Overtaken, late)
	if found := readOne(t, s, store.KindLock, "g/a"); found == nil || found.Rev != 50 {
		t.Fatalf("found %+v, want revision 50", found)
	}
}

// Counters go on over what no one can read, and all directories come back with the next writes.
func TestWipedOut(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	s := open(t, zookeeper.Options{URI: uri, OperationTimeout: patient})
	conn, chroot := raw(t, uri)
	increment := store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: "g"}}
	apply(t.Context(), t, s, store.Applied, increment)
	_, err := conn.Set(zookeeper.Document(s, store.KindGroup, "g"), []byte("{"), -1)
	must(t, err)
	apply(t.Context(), t, s, store.Applied, increment)
	if found := readOne(t, s, store.KindGroup, "g"); found == nil || found.Count < 1000 {
		t.Fatalf("counter %+v, want one that begins at the floor", found)
	}
	for _, dir := range []string{"documents", "index", "bells", "barrier"} {
		deleteAll(t, conn, chroot+"/shardctl/default/"+dir)
	}
	if found := readOne(t, s, store.KindLock, "g/a"); found != nil {
		t.Fatalf("found %+v", found)
	}
	apply(t.Context(), t, s, store.Applied, put(lock("g/a"), 0))
	apply(t.Context(), t, s, store.Applied, increment)
	r, err := s.List(t.Context(), store.KindLock, store.Query{})
	must(t, err)
	if len(r.Docs) != 1 {
		t.Fatalf("listed %+v, want the new lock", r.Docs)
	}
	deleteAll(t, conn, chroot+"/shardctl/default/bells")
	handOver := put(lock("g/a"), 1)
	handOver.Doc.Next = "another"
	apply(t.Context(), t, s, store.Applied, handOver)
}

// deleteAll removes a znode with everything below it.
func deleteAll(t *testing.T, conn *zk.Conn, path string) {
	t.Helper()
	names, _, err := conn.Children(path)
	must(t, err)
	for _, name := range names {
		deleteAll(t, conn, path+"/"+name)
	}
	must(t, conn.Delete(path, -1))
}

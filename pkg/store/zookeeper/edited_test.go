package zookeeper_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/pkg/store/zookeeper"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestEdited(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	conn, _ := raw(t, uri)
	e := storetest.Edited{Config: driver.Config{URI: uri}}
	for _, data := range []string{"", "junk", "{", `{"rev":0}`, `{"rev":"a"}`} {
		e.Locks = append(e.Locks, storetest.Edit{Name: "is " + data, Do: func(kind driver.Kind, id string) error {
			_, err := conn.Set(zookeeper.Document(s, kind, id), []byte(data), -1)
			return err
		}})
	}
	e.Counters = e.Locks
	e.Run(t)
}

// A document whose data somebody edited, or that somebody deleted, is absent, and the next creation takes its place.
func TestCreationReplacesEditedZnodes(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	conn, _ := raw(t, uri)
	for name, edit := range map[string]func(path string) error{
		"data are no JSON": func(path string) error {
			_, err := conn.Set(path, []byte("junk"), -1)
			return err
		},
		"document gone": func(path string) error {
			return errors.Join(conn.Delete(path+"/1", -1), conn.Delete(path, -1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := "g/" + name
			path := zookeeper.Document(s, driver.KindLock, id)
			apply(t.Context(), t, s, driver.Applied, put(lock(id), 0))
			must(t, edit(path))
			if found := readOne(t, s, driver.KindLock, id); found != nil {
				t.Fatalf("found %+v, want none", found)
			}
			next := put(lock(id), 0)
			next.Doc.Rev = 7
			apply(t.Context(), t, s, driver.Applied, next)
			apply(t.Context(), t, s, driver.Applied, put(lock(id), 7))
			r, err := s.List(t.Context(), driver.KindLock, driver.Query{From: id, To: id + "~"})
			must(t, err)
			if len(r.Docs) != 1 || r.Docs[0].Rev != 8 {
				t.Fatalf("listed %+v, want one at revision 8", r.Docs)
			}
			apply(t.Context(), t, s, driver.Applied, driver.Change{Op: driver.Delete, IfRev: 8, Doc: lock(id)})
			if there, _, err := conn.Exists(path); there || err != nil {
				t.Fatalf("deleted: %t, %v", there, err)
			}
		})
	}
}

// A change of a document whose znodes do not fit each other ends with an error that names them. Where they are deleted
// the document can be created again.
func TestZnodesThatDoNotFit(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	conn, _ := raw(t, uri)
	for name, edit := range map[string]func(path, entry string) error{
		"revision gone": func(path, _ string) error { return conn.Delete(path+"/1", -1) },
		"entry gone":    func(_, entry string) error { return conn.Delete(entry, -1) },
	} {
		id := "g/" + name
		path, entry := zookeeper.Document(s, driver.KindLock, id), zookeeper.Entry(s, driver.KindLock, id, 1)
		apply(t.Context(), t, s, driver.Applied, put(lock(id), 0))
		must(t, edit(path, entry))
		outs, err := s.Apply(t.Context(), put(lock(id), 1))
		must(t, err)
		if outs[0].Status != driver.Unknown || !strings.Contains(outs[0].Err.Error(), path) {
			t.Errorf("%s: %+v, want an error that names %s", name, outs[0], path)
		}
		deleteAll(t, conn, path)
		created := put(lock(id), 0)
		created.Doc.Rev = 9
		apply(t.Context(), t, s, driver.Applied, created)
		if found := readOne(t, s, driver.KindLock, id); found == nil || found.Rev != 9 {
			t.Errorf("%s: found %+v, want revision 9", name, found)
		}
	}
}

// A document deleted with all its children by a tool leaves a line of the index. It gives no old writer a way back.
func TestOldWriterAfterDeletionOutOfBand(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	conn, _ := raw(t, uri)
	apply(t.Context(), t, s, driver.Applied, put(lock("g/a"), 0))
	path := zookeeper.Document(s, driver.KindLock, "g/a")
	must(t, conn.Delete(path+"/1", -1))
	must(t, conn.Delete(path, -1))
	created := put(lock("g/a"), 0)
	created.Doc.Rev = 50
	apply(t.Context(), t, s, driver.Applied, created)
	late := put(lock("g/a"), 1)
	apply(t.Context(), t, s, driver.Overtaken, late)
	if found := readOne(t, s, driver.KindLock, "g/a"); found == nil || found.Rev != 50 {
		t.Fatalf("found %+v, want revision 50", found)
	}
}

// Counters go on over what no one can read, and all directories come back with the next writes.
func TestWipedOut(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	conn, chroot := raw(t, uri)
	increment := driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "g"}}
	apply(t.Context(), t, s, driver.Applied, increment)
	_, err := conn.Set(zookeeper.Document(s, driver.KindGroup, "g"), []byte("{"), -1)
	must(t, err)
	apply(t.Context(), t, s, driver.Applied, increment)
	if found := readOne(t, s, driver.KindGroup, "g"); found == nil || found.Count < 1000 {
		t.Fatalf("counter %+v, want one that begins at the floor", found)
	}
	for _, dir := range []string{"documents", "index", "bells", "barrier"} {
		deleteAll(t, conn, chroot+"/shardctl/default/"+dir)
	}
	if found := readOne(t, s, driver.KindLock, "g/a"); found != nil {
		t.Fatalf("found %+v", found)
	}
	apply(t.Context(), t, s, driver.Applied, put(lock("g/a"), 0))
	apply(t.Context(), t, s, driver.Applied, increment)
	r, err := s.List(t.Context(), driver.KindLock, driver.Query{})
	must(t, err)
	if len(r.Docs) != 1 {
		t.Fatalf("listed %+v, want the new lock", r.Docs)
	}
	deleteAll(t, conn, chroot+"/shardctl/default/bells")
	handOver := put(lock("g/a"), 1)
	handOver.Doc.Next = "another"
	apply(t.Context(), t, s, driver.Applied, handOver)
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

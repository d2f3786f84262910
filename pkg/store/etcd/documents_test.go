package etcd_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestEdited(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindEtcd).Database()
	client := raw(t, uri)
	e := storetest.Edited{Config: driver.Config{URI: uri}}
	for _, value := range []string{"", "junk", `{"rev":0}`, `{"rev":"a"}`} {
		e.Locks = append(e.Locks, storetest.Edit{Name: "is " + value, Do: func(kind driver.Kind, id string) error {
			_, err := client.Put(t.Context(), prefixOf(uri)+"/default/"+string(kind)+"/"+id, value)
			return err
		}})
	}
	e.Counters = e.Locks
	e.Run(t)
}

func mustRead(t *testing.T, s driver.Store, kind driver.Kind, id string) driver.Reply {
	t.Helper()
	reply, err := s.Read(t.Context(), kind, id)
	if err != nil || len(reply.Docs) != 1 {
		t.Fatalf("read %s %s: %+v, %v", kind, id, reply, err)
	}
	return reply
}

// Between a read and a write a document is deleted and created again at the same revision: the condition on what was
// read does not hold for etcd, and does for the contract. Another one in its place is refused.
func TestDeletedAndCreatedAgain(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindEtcd).Database()
	s, other := storetest.Open(t, driver.Config{URI: uri}), storetest.Open(t, driver.Config{URI: uri})
	if out := apply(t.Context(), t, s, create("g/a")); out.Status != driver.Applied {
		t.Fatalf("%+v", out)
	}
	drop := driver.Change{Op: driver.Delete, IfRev: 1, Doc: create("g/a").Doc}
	if out := apply(t.Context(), t, other, drop); out.Status != driver.Applied {
		t.Fatalf("%+v", out)
	}
	again := create("g/a")
	again.Doc.Rev, again.Doc.WriterID.Seq = 5, 2
	if out := apply(t.Context(), t, other, again); out.Status != driver.Applied {
		t.Fatalf("%+v", out)
	}
	late := create("g/a")
	late.IfRev, late.Doc.Rev, late.Doc.WriterID.Seq = 1, 2, 3
	if out := apply(t.Context(), t, s, late); out.Status == driver.Applied || out.Doc == nil || out.Doc.Rev != 5 {
		t.Errorf("a write on what was deleted: %+v", out)
	}
}

// Whatever is deleted with etcdctl, the floor is above every revision that was written above a floor, for all clients.
func TestFloorRisesAboveEveryRevision(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindEtcd).Database()
	s, other, client := storetest.Open(t, driver.Config{URI: uri}), storetest.Open(t, driver.Config{URI: uri}), raw(t, uri)
	largest := int64(0)
	for i := range int64(20) {
		reply, err := []driver.Store{s, other}[i%2].Read(t.Context(), driver.KindLock, "g/a")
		if err != nil {
			t.Fatal(err)
		}
		if reply.Floor < largest {
			t.Fatalf("floor %d after revision %d", reply.Floor, largest)
		}
		c := create("g/a")
		c.Doc.Rev, c.Doc.WriterID.Seq = reply.Floor+1, i
		if out := apply(t.Context(), t, s, c); out.Status != driver.Applied {
			t.Fatalf("%+v", out)
		}
		largest = c.Doc.Rev
		if _, err := client.Delete(t.Context(), prefixOf(uri)+"/default/lock/g/a"); err != nil {
			t.Fatal(err)
		}
	}
	raised := largest + 1_000_000
	if err := driver.RaiseFloor(t.Context(), s, raised); err != nil {
		t.Fatal(err)
	}
	for _, each := range []driver.Store{s, other, storetest.Open(t, driver.Config{URI: uri})} {
		reply, err := each.List(t.Context(), driver.KindLock, driver.Query{})
		if err != nil || reply.Floor < raised {
			t.Errorf("floor %d, %v; want %d at least", reply.Floor, err, raised)
		}
	}
	if err := driver.RaiseFloor(t.Context(), s, 1); err != nil {
		t.Errorf("raise below what it is: %v", err)
	}
	if err := driver.RaiseFloor(t.Context(), s, driver.MaxMark+1); !errors.Is(err, driver.ErrMalformed) {
		t.Errorf("raise above the largest mark: %v", err)
	}
}

// Batches of documents that are as large as they may be, with notes that carry them again, stay within etcd's limits.
func TestLargeDocumentsInBatches(t *testing.T) {
	s := storetest.Open(t, driver.Config{URI: testservers.Shared(t, testservers.KindEtcd).Database()})
	long := strings.Repeat("x", driver.MaxText-8)
	var puts, raises []driver.Change
	for i := range 40 {
		c := create(long + strconv.Itoa(i))
		c.Doc.Kind, c.Doc.Body = driver.KindGroup, make([]byte, driver.MaxBody) // zeros are six bytes each in JSON
		puts = append(puts, c)
		raises = append(raises, driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: c.Doc.ID}})
	}
	for _, changes := range [][]driver.Change{puts, raises} {
		outs, err := s.Apply(t.Context(), changes...)
		if err != nil {
			t.Fatal(err)
		}
		for i, out := range outs {
			if out.Status != driver.Applied {
				t.Fatalf("change %d: %v, %v", i, out.Status, out.Err)
			}
		}
	}
	last := mustRead(t, s, driver.KindGroup, raises[39].Doc.ID).Docs[0]
	if last.Count != 1 || len(last.Body) != driver.MaxBody {
		t.Errorf("count %d, body of %d bytes", last.Count, len(last.Body))
	}
}

// A store has one connection, with a watch and many calls under way.
func TestOneConnection(t *testing.T) {
	server := testservers.Start(t, testservers.KindEtcd)
	uri := server.Database()
	for end := time.Now().Add(patient); connections(t, server.Addr) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection of the server's start stays")
		}
	}
	s := storetest.Open(t, driver.Config{URI: uri})
	watching(t, s)
	var changes []driver.Change
	for i := range 3000 {
		changes = append(changes, create("g/"+strconv.Itoa(i)))
	}
	if _, err := s.Apply(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	if n := connections(t, server.Addr); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// connections counts this machine's established connections to an address on the loopback interface.
func connections(t *testing.T, addr string) (n int) {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Skip("connections are counted by /proc, which is not here")
	}
	_, port, _ := strings.Cut(addr, ":")
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	remote := ":" + strings.ToUpper(strconv.FormatUint(0x10000+number, 16)[1:])
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) > 3 && strings.HasSuffix(fields[2], remote) && fields[3] == "01" {
			n++
		}
	}
	return n
}

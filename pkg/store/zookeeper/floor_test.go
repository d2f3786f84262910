package zookeeper_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/pkg/store/zookeeper"
	"github.com/shardctl/shardctl/test/testservers"
)

// floor is that of a Read.
func floor(t *testing.T, s driver.Store) int64 {
	t.Helper()
	r, err := s.Read(t.Context(), driver.KindLock)
	must(t, err)
	return r.Floor
}

// The floor rises with each write, and above whatever another store was at.
func TestFloor(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	first := floor(t, s)
	if second := floor(t, s); second <= first {
		t.Errorf("floor %d after %d", second, first)
	}
	want := first + 1_000_000_000_000
	must(t, driver.RaiseFloor(t.Context(), s, want))
	raised := floor(t, s)
	if raised < want {
		t.Errorf("floor %d, raised to %d", raised, want)
	}
	must(t, driver.RaiseFloor(t.Context(), s, 5)) // never lower
	if got := floor(t, storetest.Open(t, driver.Config{URI: uri})); got < raised {
		t.Errorf("another client has the floor %d, want %d", got, raised)
	}
	if err := driver.RaiseFloor(t.Context(), s, -1); !errors.Is(err, driver.ErrMalformed) {
		t.Errorf("floor -1: %v", err)
	}
}

// Clients that run know of a floor that another has raised since, with the next reply of either kind.
func TestFloorThatAnotherRaises(t *testing.T) {
	o := zookeeper.Options{URI: testservers.Shared(t, testservers.KindZooKeeper).Database(), Timeout: patient}
	s, other := storetest.Open(t, o), storetest.Open(t, o)
	for range 3 {
		want := floor(t, s) + 1_000_000_000_000
		must(t, driver.RaiseFloor(t.Context(), other, want))
		if got := floor(t, s); got < want {
			t.Errorf("read says %d, raised to %d", got, want)
		}
		want += 1_000_000_000_000
		must(t, driver.RaiseFloor(t.Context(), other, want))
		r, err := s.List(t.Context(), driver.KindLock, driver.Query{})
		must(t, err)
		if r.Floor < want {
			t.Errorf("list says %d, raised to %d", r.Floor, want)
		}
	}
}

// After thirty days with fifteen elections the ensemble loses everything, or all since then. The floor is above the
// tokens that it had given.
func TestFloorAfterALoss(t *testing.T) {
	const elections, election = 15, 1 << 32
	base := 32 * time.Now().Add(-30*24*time.Hour).UnixMilli()
	given := base + elections*election
	for name, restored := range map[string]bool{"of everything": false, "of what is not in the backup": true} {
		t.Run(name, func(t *testing.T) {
			uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
			if restored {
				storetest.Open(t, driver.Config{URI: uri})
				conn, chroot := raw(t, uri)
				_, err := conn.Set(chroot+"/shardctl/default/floor", []byte(strconv.FormatInt(base, 10)), -1)
				must(t, err)
			}
			if got := floor(t, storetest.Open(t, driver.Config{URI: uri})); got <= given {
				t.Errorf("floor %d, not above %d", got, given)
			}
		})
	}
}

// What somebody does to the znode of the floor takes nothing from clients that run, and is reported to those that open.
func TestFloorIsEdited(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	conn, chroot := raw(t, uri)
	path, before := chroot+"/shardctl/default/floor", floor(t, s)
	_, err := conn.Set(path, []byte("junk"), -1)
	must(t, err)
	if got := floor(t, s); got < before {
		t.Errorf("floor %d after %d", got, before)
	}
	storetest.WantRefused(t, driver.Config{URI: uri, Timeout: patient}, driver.ErrInvalid, "holds no number")
	must(t, conn.Delete(path, -1))
	if got := floor(t, s); got < before {
		t.Errorf("floor %d after %d", got, before)
	}
	storetest.WantRefused(t, driver.Config{URI: uri, Timeout: patient}, driver.ErrInvalid, "was deleted: write to it")
	want := before + 1_000_000_000_000
	_, err = conn.Create(path, []byte(strconv.FormatInt(want, 10)), 0, zk.WorldACL(zk.PermAll))
	must(t, err)
	if got := floor(t, s); got < want {
		t.Errorf("floor %d, want that of the new znode, %d", got, want)
	}
}

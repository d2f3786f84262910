package redis_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// An operator who says that a database is new saves its first claims the wait. The first of them sets the lease.
func TestInitOpensTheGateOfANewDatabase(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	c := driver.Config{URI: "redis://" + server.Addr}
	for _, want := range []bool{true, false} {
		if made, err := store.Init(t.Context(), c); err != nil || made != want {
			t.Fatalf("init: %v, %v; want %v", made, err, want)
		}
	}
	s := storetest.Open(t, c)
	before := lock("g/stale", floor(t, s).Floor, lease)
	before.Doc.Rev -= 60_000
	must(t, s, before, driver.Refused)
	rev := floor(t, s).Floor + 1
	if out := apply(t, s, lock("g/a", rev, lease)); out.Status != driver.Applied {
		t.Fatalf("a first claim: %+v, want it applied", out)
	}
	out := apply(t, s, lock("g/b", rev+1, 2*lease))
	if out.Status != driver.Unknown || !strings.Contains(out.Err.Error(), "a lease of 1000 ms is kept") {
		t.Errorf("a claim with another lease: %+v", out)
	}

	server.Kill()
	server.Start()
	if out := apply(t, s, lock("g/c", floor(t, s).Floor+1, lease)); out.Status != driver.Unknown {
		t.Errorf("a claim at once after a restart: %+v", out)
	}
	wantUsed(t, c)
}

// What replicas have used, or another identity has opened, is not new.
func TestInitLeavesAUsedDatabaseClosed(t *testing.T) {
	shared := testservers.Shared(t, testservers.KindRedis)
	for name, doc := range map[string]driver.Doc{
		"a session": {Kind: driver.KindSession, ID: "s", Rev: 1},
		"a lock":    {Kind: driver.KindLock, ID: "g/a", Group: "g", Rev: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := driver.Config{URI: shared.Database()}
			s := storetest.Open(t, c)
			doc.WriterID = driver.WriterID{Session: "w", Seq: 1}
			must(t, s, driver.Change{Doc: doc}, driver.Applied)
			wantUsed(t, c)
			if out := apply(t, s, lock("g/b", floor(t, s).Floor+1, lease)); out.Status != driver.Unknown {
				t.Errorf("a claim at once: %+v", out)
			}
		})
	}
}

func wantUsed(t *testing.T, c driver.Config) {
	t.Helper()
	if made, err := store.Init(t.Context(), c); made || !errors.Is(err, driver.ErrInvalid) ||
		!strings.Contains(err.Error(), "the database is not new") {
		t.Errorf("init: %v, %v; want the database refused as used", made, err)
	}
}

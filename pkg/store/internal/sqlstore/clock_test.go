package sqlstore_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

// After the machine's clock was set back, the store's clock stays above the revisions that were given.
func TestNowIsNeverBelowTheHighWaterMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ahead := time.Now().Add(time.Hour).UnixMilli()
	outs, err := s.Apply(
		t.Context(), driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "g", Rev: ahead}},
	)
	if err != nil || outs[0].Status != driver.Applied {
		t.Fatal(outs, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close(t.Context()) }()
	res, err := again.Read(t.Context(), driver.KindSession, "s") // before anything else was read
	if err != nil || res.Now < ahead {
		t.Errorf("read a session: %d, %v; want at least %d", res.Now, err, ahead)
	}
	res, err = again.Read(t.Context(), driver.KindLock, "g/k")
	if err != nil || res.Now < ahead {
		t.Errorf("read: %d, %v; want at least %d", res.Now, err, ahead)
	}
	res, err = again.List(t.Context(), driver.KindLock, driver.Query{CountOnly: true})
	if err != nil || res.Now < ahead {
		t.Errorf("list: %d, %v; want at least %d", res.Now, err, ahead)
	}
}

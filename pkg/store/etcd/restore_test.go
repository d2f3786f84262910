package etcd_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// The files of a backup take the place of newer ones. Tokens are larger than those that were given since all the same.
func TestTokensRiseOverARestoredBackup(t *testing.T) {
	server := testservers.Start(t, testservers.KindEtcd)
	uri := server.Database()
	data, backup := server.Server().Site().Path("data"), filepath.Join(t.TempDir(), "backup")
	claim := func(s driver.Store) (token int64) {
		t.Helper()
		reply, err := s.Read(t.Context(), driver.KindLock, "g/a")
		if err != nil {
			t.Fatal(err)
		}
		change := create("g/a")
		if len(reply.Docs) > 0 {
			change.IfRev = reply.Docs[0].Rev
		}
		change.Doc.Rev = max(change.IfRev+1, reply.Floor)
		if out := apply(t.Context(), t, s, change); out.Status != driver.Applied {
			t.Fatalf("%+v", out)
		}
		return change.Doc.Rev
	}
	s := storetest.Open(t, driver.Config{URI: uri})
	claim(s)
	server.Stop()
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	server.Start()
	var last int64
	for range 100 {
		last = claim(s)
	}
	server.Kill()
	if err := errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(backup))); err != nil {
		t.Fatal(err)
	}
	server.Start()
	if token := claim(storetest.Open(t, driver.Config{URI: uri})); token <= last {
		t.Errorf("token %d after %d", token, last)
	}
}

package sqlite_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/storetest"
)

// A day of one replica with a lease of 20 s is 43,200 heartbeats: 4,320 of each of the test's ten replicas.
var heartbeats = flag.Int("heartbeats", 500, "how many heartbeats each replica of TestGarbageOfHeartbeats writes")

// Heartbeats leave no garbage that grows: SQLite writes its log from the beginning again at four megabytes.
func TestGarbageOfHeartbeats(t *testing.T) {
	const replicas, pageSize = 10, 4096
	path := filepath.Join(t.TempDir(), "locks.db")
	s, err := store.Open(t.Context(), store.Config{URI: "sqlite:" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	var most int64
	for heartbeat := range int64(*heartbeats) {
		for i := range replicas { // each a transaction of its own, as replicas send them
			outs, err := s.Apply(t.Context(), storetest.Heartbeat(fmt.Sprint("session-", i), heartbeat))
			if err != nil || outs[0].Status != store.Applied {
				t.Fatalf("heartbeat %d: %+v, %v", heartbeat, outs, err)
			}
		}
		most = max(most, size(t, path+"-wal"))
	}
	file := size(t, path)
	t.Logf("%d heartbeats: the file has %d bytes, its log at most %d", replicas**heartbeats, file, most)
	if most > 5<<20 {
		t.Errorf("the log had %d bytes, want at most 5 MiB", most)
	}
	if file > 60*pageSize {
		t.Errorf("the file has %d bytes, want no growth", file)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

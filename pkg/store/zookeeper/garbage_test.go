package zookeeper_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// dataFiles are the sizes of a server's files of one kind, log or snapshot, without the zeros that a log ends with: its
// space is taken in advance.
func dataFiles(t *testing.T, server *testservers.Server, kind string) (count, size int) {
	t.Helper()
	paths, err := filepath.Glob(server.Server().Site().Path("data/version-2/" + kind + ".*"))
	must(t, err)
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // purged just now
		}
		must(t, err)
		count, size = count+1, size+len(bytes.TrimRight(content, "\x00"))
	}
	return count, size
}

// Each heartbeat leaves one entry in the log of transactions, and now and then one more snapshot. Autopurge takes away
// all but the last three snapshots and the logs since then. docs/stores/zookeeper.md says what that is in a day.
func TestHeartbeatsLeaveOneSmallTransaction(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	const heartbeats, most = 5000, 1000 // bytes a heartbeat
	const snapshots = 3
	server := testservers.Start(t, testservers.KindZooKeeper, "snapCount=1000", "autopurge.snapRetainCount=3",
		"autopurge.purgeInterval=1")
	s := storetest.Open(t, driver.Config{URI: server.Database()})
	const id = "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"
	heartbeat := func(rev int64) driver.Change {
		return driver.Change{IfRev: rev, Doc: driver.Doc{
			Kind: driver.KindSession, ID: id, Rev: rev + 1, State: driver.StateLive, Count: rev + 1,
			WriterID: driver.WriterID{Session: id, Seq: rev + 1},
			Body:     []byte(`{"instance":"web-1","lease":20000,"version":"1.0.0"}`),
		}}
	}
	apply(t.Context(), t, s, driver.Applied, heartbeat(0))
	_, before := dataFiles(t, server, "log")
	for rev := int64(1); rev <= heartbeats; rev++ {
		apply(t.Context(), t, s, driver.Applied, heartbeat(rev))
	}
	logs, after := dataFiles(t, server, "log")
	taken, size := dataFiles(t, server, "snapshot")
	each := (after - before) / heartbeats
	t.Logf("%d bytes a heartbeat in %d logs; %d snapshots of %d bytes", each, logs, taken, size)
	if each > most || each == 0 {
		t.Errorf("a heartbeat leaves %d bytes, want 1 to %d", each, most)
	}
	if taken <= snapshots {
		t.Fatalf("%d snapshots: nothing is to be purged", taken)
	}
	server.Stop()
	server.Start() // a purge begins each time, then every hour
	await(t, "old files are purged", func() bool {
		kept, _ := dataFiles(t, server, "snapshot")
		logs, left := dataFiles(t, server, "log")
		return kept <= snapshots+1 && logs <= snapshots+2 && left < after // one more snapshot is taken at the start
	})
}

package etcd_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// Each heartbeat leaves one revision of one small key, and a compaction takes all of them away. docs/stores/etcd.md
// says what that is in a day.
func TestHeartbeatsLeaveOneSmallRevision(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	server := testservers.Start(t, testservers.KindEtcd)
	uri := server.Database()
	s, client := storetest.Open(t, driver.Config{URI: uri}), raw(t, uri)
	const heartbeats, most = 5000, 600 // bytes a heartbeat
	heartbeat := func(rev int64) driver.Change {
		return driver.Change{IfRev: rev, Doc: driver.Doc{
			Kind: driver.KindSession, ID: "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", Rev: rev + 1, State: "live",
			Count: rev + 1, WriterID: driver.WriterID{Session: "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", Seq: rev + 1},
			Body: []byte(`{"instance":"web-1","lease":20000,"version":"1.0.0"}`),
		}}
	}
	apply(t.Context(), t, s, heartbeat(0))
	before, err := client.Status(t.Context(), "http://"+server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	for rev := int64(1); rev <= heartbeats; rev++ {
		if out := apply(t.Context(), t, s, heartbeat(rev)); out.Status != driver.Applied {
			t.Fatalf("heartbeat %d: %+v", rev, out)
		}
	}
	after, err := client.Status(t.Context(), "http://"+server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if n := after.Header.Revision - before.Header.Revision; n != heartbeats {
		t.Errorf("%d heartbeats made %d revisions", heartbeats, n)
	}
	each := (after.DbSize - before.DbSize) / heartbeats
	t.Logf("%d bytes a heartbeat", each)
	if each > most {
		t.Errorf("a heartbeat leaves %d bytes, want at most %d", each, most)
	}
	if _, err := client.Compact(t.Context(), after.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Defragment(t.Context(), "http://"+server.Addr); err != nil {
		t.Fatal(err)
	}
	small, err := client.Status(t.Context(), "http://"+server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if small.DbSize > before.DbSize+64<<10 {
		t.Errorf("after a compaction it takes %d bytes, before the heartbeats %d", small.DbSize, before.DbSize)
	}
}

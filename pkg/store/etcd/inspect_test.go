package etcd_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/etcd"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// setting is one of an inspection.
func setting(t *testing.T, s driver.Store, name string) driver.Setting {
	t.Helper()
	found, err := store.Inspect(t.Context(), s)
	if err != nil || !strings.HasPrefix(found.Server, "etcd 3.") {
		t.Fatalf("inspect: %+v, %v", found, err)
	}
	for _, is := range found.Settings {
		if strings.HasPrefix(is.Name, name) {
			return is
		}
	}
	t.Fatalf("no setting %s in %+v", name, found)
	return driver.Setting{}
}

func problems(s driver.Store) string {
	var all []string
	for _, p := range store.Problems(s) {
		all = append(all, p.Reason)
	}
	return strings.Join(all, " ")
}

// An etcd whose history goes back for days is reported, until somebody compacts it.
func TestHistoryThatNobodyCompactsIsTold(t *testing.T) {
	uri := testservers.Start(t, testservers.KindEtcd).Database()
	first := storetest.Open(t, driver.Config{URI: uri})
	if got := problems(first); got != "" {
		t.Errorf("problems of a new etcd: %s", got)
	}
	client := raw(t, uri)
	long := time.Now().Add(-48 * time.Hour).UnixMilli()
	if _, err := client.Put(
		t.Context(), prefixOf(uri)+"/default/.floor", fmt.Sprintf(`{"base":1,"time":%d}`, long),
	); err != nil {
		t.Fatal(err)
	}
	second := storetest.Open(t, driver.Config{URI: uri})
	if got := problems(second); got != etcd.ReasonNotCompacted {
		t.Errorf("problems %q, want %s", got, etcd.ReasonNotCompacted)
	}
	if is := setting(t, second, "auto-compaction-retention"); is.Holds || !strings.Contains(is.Value, "48h0m") {
		t.Errorf("%+v", is)
	}
	now, err := client.Get(t.Context(), "any")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if got := problems(storetest.Open(t, driver.Config{URI: uri})); got != "" {
		t.Errorf("problems after a compaction: %s", got)
	}
	if is := setting(t, second, "member"); !is.Holds || !strings.Contains(is.Value, "the leader") {
		t.Errorf("%+v", is)
	}
	if is := setting(t, second, "alarms"); !is.Holds {
		t.Errorf("%+v", is)
	}
}

// A database that has reached its quota takes no writes. The error says what to do, and when it was done all goes on.
func TestFullDatabase(t *testing.T) {
	server := testservers.Start(t, testservers.KindEtcd, "quota-backend-bytes: 4194304")
	uri := server.Database()
	s, client := storetest.Open(t, driver.Config{URI: uri}), raw(t, uri)
	body := make([]byte, driver.MaxBody)
	full := driver.Outcome{Status: driver.Applied}
	for i := int64(0); full.Status == driver.Applied && i < 1000; i++ {
		full = apply(t.Context(), t, s, driver.Change{IfRev: i, Doc: driver.Doc{
			Kind: driver.KindValue, ID: "g/a", Rev: i + 1, WriterID: driver.WriterID{Session: "s", Seq: i}, Body: body,
		}})
	}
	if full.Status != driver.Unknown || !errors.Is(full.Err, driver.ErrUnavailable) ||
		!strings.Contains(full.Err.Error(), "etcdctl alarm disarm") {
		t.Fatalf("write to a full database: %+v", full)
	}
	if _, err := s.Read(t.Context(), driver.KindValue, "g/a"); err != nil {
		t.Errorf("read of a full database: %v", err)
	}
	if got := problems(storetest.Open(t, driver.Config{URI: uri})); got != etcd.ReasonNearlyFull {
		t.Errorf("problems %q, want %s", got, etcd.ReasonNearlyFull)
	}
	if is := setting(t, s, "alarms"); is.Holds || !strings.Contains(is.Value, "NOSPACE") {
		t.Errorf("%+v", is)
	}
	// As when a backup of a full database is restored: its base is one of long ago, and cannot be raised.
	if _, err := client.Delete(t.Context(), prefixOf(uri)+"/default/.floor"); err != nil {
		t.Fatal(err)
	}
	begun := time.Now().UnixMilli()
	reply, err := storetest.Open(t, driver.Config{URI: uri}).Read(t.Context(), driver.KindLock, "g/a")
	if err != nil || reply.Floor < begun {
		t.Errorf("opened a full database: floor %d, %v; want %d at least", reply.Floor, err, begun)
	}
	now, err := client.Get(t.Context(), "any")
	if err != nil {
		t.Fatal(err)
	}
	_, compacted := client.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical())
	_, defragmented := client.Defragment(t.Context(), "http://"+server.Addr)
	_, disarmed := client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	if err := errors.Join(compacted, defragmented, disarmed); err != nil {
		t.Fatal(err)
	}
	if out := apply(t.Context(), t, s, create("g/after")); out.Status != driver.Applied {
		t.Errorf("write after it was emptied: %+v", out)
	}
}

// One member that stands still does not keep the others from answering an inspection.
func TestInspectionAsksMembersAtOnce(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	cluster := testservers.StartEtcdCluster(t)
	s := storetest.Open(t, driver.Config{URI: cluster.Database(), Timeout: 3 * brief})
	w := calls.Write(t, s)
	w.GoOn(t)
	cluster.Members[0].Freeze()
	defer cluster.Members[0].Thaw()
	w.GoOn(t)
	w.Check(t, s)
	for i, m := range cluster.Members {
		if is := setting(t, s, "member http://"+m.Addr); is.Holds != (i > 0) {
			t.Errorf("member %d: %+v", i, is)
		}
	}
}

package zookeeper_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// Leases of 8 s outlive the loss of a leader, dead or frozen: no run ends, and so none is started again.
func TestLeasesOutliveTheirLeader(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "a real server")
	const lease, members, keys = 8 * time.Second, 3, 4
	ensemble := testservers.StartZooKeepers(t, 3)
	uri := ensemble.Database()
	var starts, ends atomic.Int64
	work := func(ctx context.Context, _ *elect.Lease) error {
		starts.Add(1)
		<-ctx.Done()
		ends.Add(1)
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	for m := range members {
		db := storetest.Open(t, driver.Config{URI: uri, Timeout: lease / 6})
		e, err := elect.Start(ctx, elect.Config{
			Store: db, Member: elect.Member{Instance: fmt.Sprint("member-", m)}, LeaseDuration: lease,
			OnStuck: func(stuck []elect.Key) { t.Errorf("stuck: %v", stuck) },
		})
		must(t, err)
		group.Go(func() {
			if err := e.Wait(); err != nil {
				t.Error(err)
			}
		})
		for k := range keys {
			key := elect.Key(fmt.Sprintf("g/%d-%d", m, k))
			if ok, err := e.Lock(ctx, key, work); !ok || err != nil {
				t.Fatalf("lock %s: %t, %v", key, ok, err)
			}
		}
	}
	await(t, "all keys run", func() bool { return starts.Load() == members*keys })
	leader := ensemble.Leader()
	leader.Kill()
	outlive(t, lease, &ends)
	leader.Start()
	leader = ensemble.Leader()
	leader.Freeze()
	outlive(t, lease, &ends)
	leader.Thaw()
	outlive(t, lease, &ends)
	if n := starts.Load(); n != members*keys {
		t.Errorf("%d starts, want one for each of %d keys", n, members*keys)
	}
	stop()
	group.Wait()
}

// outlive watches for longer than a lease lasts without heartbeats.
func outlive(t *testing.T, lease time.Duration, ends *atomic.Int64) {
	t.Helper()
	for end := time.Now().Add(lease * 3 / 2); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if n := ends.Load(); n > 0 {
			t.Fatalf("%d runs ended", n)
		}
	}
}

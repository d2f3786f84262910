package linearizability

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/etcd"
	"github.com/shardctl/shardctl/test/testservers"
)

// etcdDatabase is a prefix of a cluster, which clients reach through a proxy before each member.
func etcdDatabase(cluster *testservers.EtcdCluster, links []*testservers.Proxy) database {
	uri := cluster.Database()
	for i, m := range cluster.Members {
		uri = strings.Replace(uri, m.Addr, links[i].Addr, 1)
	}
	return database{name: "etcd", freshLists: true, open: func(ctx context.Context) (store.Store, error) {
		return opened(etcd.Open(ctx, etcd.Options{URI: uri, Timeout: 3 * time.Second}))
	}}
}

// etcdFaults does to three members, and to the networks before them, what happens to them, by seed, until it is asked
// to end.
type etcdFaults struct {
	cluster  *testservers.EtcdCluster
	members  []*testservers.Server
	links    []*testservers.Proxy
	random   *rand.Rand
	injected *injected
}

func (f *etcdFaults) run(ctx context.Context) {
	for f.pause(ctx, 300*time.Millisecond, 2*time.Second) {
		i := f.random.IntN(len(f.members))
		switch f.random.IntN(8) {
		case 0:
			f.injected.add("connections cut")
			f.links[i].Cut()
		case 1:
			f.injected.add("network before a member blocked")
			f.links[i].Block()
			f.pause(ctx, 50*time.Millisecond, 2*time.Second)
			f.links[i].Unblock()
		case 2, 3:
			f.injected.add("member stands still")
			f.members[i].Freeze()
			f.pause(ctx, 50*time.Millisecond, 3*time.Second)
			f.members[i].Thaw()
		case 4:
			f.injected.add("member dies")
			f.members[i].Kill()
			f.pause(ctx, 50*time.Millisecond, 2*time.Second)
			f.start(ctx, i)
		case 5:
			f.injected.add("majority stands still")
			other := (i + 1) % len(f.members)
			f.members[i].Freeze()
			f.members[other].Freeze()
			f.pause(ctx, 50*time.Millisecond, 2*time.Second)
			f.members[i].Thaw()
			f.members[other].Thaw()
		case 6, 7: // what lists are between two pages of, and watches behind
			if f.cluster.Compact(ctx) == nil {
				f.injected.add("history compacted")
			}
		}
	}
}

// start starts a member again. Without it the others go on; that it may fail at the end is no fault of the store.
func (f *etcdFaults) start(ctx context.Context, i int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := f.members[i].Server().Start(ctx); err != nil {
		f.injected.add("member not back in time")
	}
}

// pause waits for some time between two. It reports false when ctx has ended.
func (f *etcdFaults) pause(ctx context.Context, from, to time.Duration) bool {
	select {
	case <-time.After(from + upTo(f.random, to-from)):
		return true
	case <-ctx.Done():
		return false
	}
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	cluster := testservers.StartEtcdCluster(t)
	var links []*testservers.Proxy
	for _, m := range cluster.Members {
		links = append(links, m.Link())
	}
	faults := &etcdFaults{
		cluster: cluster, members: cluster.Members, links: links, random: rand.New(rand.NewPCG(seed, 6000)),
		injected: &injected{},
	}
	whileRunning(t, faults.run)
	record(t, seed, etcdDatabase(cluster, links), etcdDatabase(cluster, links), faults.injected)
}

package linearizability

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// redisCluster is three masters, whose majority elects, and two replicas of the first one. That shard has all slots but
// two, so all documents are there.
type redisCluster struct {
	nodes   []*testservers.Server
	clients []*redis.Client
}

// shard are the nodes of the shard that has the documents; the first is the master at the beginning.
var shard = []int{0, 3, 4}

func startRedisCluster(t *testing.T) *redisCluster {
	t.Helper()
	c := &redisCluster{}
	buses, err := testprocess.FreePorts(t.Context(), 5)
	must(t, err)
	for _, bus := range buses {
		node := testservers.Start(t, testservers.KindRedis,
			"cluster-enabled yes", "databases 1", "cluster-port "+strconv.Itoa(bus),
			"cluster-node-timeout 1000",
			// a replica that has been without its master for long may follow it, too
			"cluster-replica-validity-factor 0",
			"repl-diskless-sync-delay 0",
			"repl-timeout 5",
			"repl-ping-replica-period 1",
		)
		client := redis.NewClient(&redis.Options{
			Addr: node.Addr, MaxRetries: -1, DialTimeout: 300 * time.Millisecond, ReadTimeout: 300 * time.Millisecond,
		})
		t.Cleanup(func() { _ = client.Close() }) // it only asks
		c.nodes, c.clients = append(c.nodes, node), append(c.clients, client)
	}
	for i, slots := range [][2]int{{2, 16383}, {0, 0}, {1, 1}} {
		must(t, c.clients[i].Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1]).Err())
		must(t, c.clients[i].Do(t.Context(), "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
	}
	for i, node := range c.nodes[1:] {
		host, port, err := net.SplitHostPort(node.Addr)
		must(t, err)
		must(t, c.clients[0].Do(t.Context(), "CLUSTER", "MEET", host, port, buses[i+1]).Err())
	}
	master, err := c.clients[0].Do(t.Context(), "CLUSTER", "MYID").Text()
	must(t, err)
	for _, i := range shard[1:] {
		eventually(t, "it knows its master", func() bool {
			return c.clients[i].Do(t.Context(), "CLUSTER", "REPLICATE", master).Err() == nil
		})
	}
	eventually(t, "all replicas are in sync and all nodes say that all is well", func() bool {
		said, _ := c.clients[0].Info(t.Context(), "replication").Result()
		well := strings.Count(said, "state=online") == len(shard)-1
		for _, client := range c.clients {
			state, err := client.ClusterInfo(t.Context()).Result()
			well = well && err == nil && strings.Contains(state, "cluster_state:ok") &&
				strings.Contains(state, "cluster_known_nodes:5")
		}
		return well
	})
	return c
}

// uri names all nodes, as stores take it.
func (c *redisCluster) uri() string {
	addrs := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		addrs[i] = node.Addr
	}
	return "redis+cluster://" + strings.Join(addrs, ",") + "?nodes=" + strconv.Itoa(len(shard))
}

// roles are the node of the shard that says it is the master, and the others. While one is elected none may.
func (c *redisCluster) roles(ctx context.Context) (master int, replicas []int) {
	master = -1
	for _, i := range shard {
		if said, err := c.clients[i].Info(ctx, "replication").Result(); err == nil &&
			strings.Contains(said, "role:master") {
			master = i
		} else {
			replicas = append(replicas, i)
		}
	}
	return master, replicas
}

// clusterFaults does to the shard what happens to shards.
type clusterFaults struct {
	*redisCluster
	random   *rand.Rand
	injected *injected
	failed   error
	masters  map[int]bool // that were seen
}

func (f *clusterFaults) run(ctx context.Context) {
	for f.failed == nil && pauseBetween(ctx, f.random, 1500, 4000) {
		background := context.WithoutCancel(ctx)
		master, replicas := f.roles(background)
		if master < 0 {
			continue
		}
		f.masters[master] = true
		replica := replicas[f.random.IntN(len(replicas))]
		node, what := master, "master"
		if f.random.IntN(3) == 0 {
			node, what = replica, "replica"
		}
		longest := 800
		if f.random.IntN(2) == 0 {
			longest = 5000 // long enough for another master
		}
		switch f.random.IntN(7) {
		case 0, 1:
			f.injected.add(what + " dies")
			f.nodes[node].Kill()
			pauseBetween(ctx, f.random, 10, longest)
			f.failed = f.nodes[node].Server().Start(background)
		case 2, 3:
			f.injected.add(what + " stands still")
			f.nodes[node].Freeze()
			pauseBetween(ctx, f.random, 50, longest)
			f.nodes[node].Thaw()
		case 4:
			f.injected.add("a replica takes over by force")
			// It does not wait for the master, so what that one has not sent is lost. Refused where it is not in sync.
			_ = f.clients[replica].Do(background, "CLUSTER", "FAILOVER", "FORCE").Err()
		case 5, 6:
			f.loseSuffix(ctx, master, replicas)
		}
	}
}

func (f *clusterFaults) loseSuffix(ctx context.Context, master int, replicas []int) {
	f.injected.add("master dies, and its replicas have lost a suffix")
	for _, i := range replicas {
		f.nodes[i].Freeze()
	}
	pauseBetween(ctx, f.random, 50, 800)
	f.nodes[master].Kill()
	for _, i := range replicas {
		f.nodes[i].Thaw()
	}
	pauseBetween(ctx, f.random, 2000, 5000)
	f.failed = f.nodes[master].Server().Start(context.WithoutCancel(ctx))
}

func newClusterFaults(t *testing.T, seed uint64) *clusterFaults {
	t.Helper()
	f := &clusterFaults{
		redisCluster: startRedisCluster(t), random: rand.New(rand.NewPCG(seed, 7000)), injected: &injected{},
		masters: map[int]bool{},
	}
	t.Cleanup(func() {
		if f.failed != nil {
			t.Error(f.failed)
		}
	})
	return f
}

func TestRedisCluster(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "several real servers")
	t.Parallel()
	seed := seed(t)
	f := newClusterFaults(t, seed)
	t.Cleanup(func() {
		t.Logf("%d of %d nodes were the master", len(f.masters), len(shard))
		if *seconds >= 40 && len(f.masters) < 2 {
			t.Error("no failover")
		}
	})
	whileRunning(t, f.run)
	const name = "Redis Cluster"
	documents, locks := redisDatabase(name, f.uri(), "documents"), redisDatabase(name, f.uri(), "locks")
	if *seconds >= 40 {
		documents.lineages = 2 // shorter ones may meet no failover
	}
	record(t, seed, documents, locks, f.injected)
}

// unreplicated takes a write for good before half of the nodes have it, and reports no other lineage.
type unreplicated struct{ store.Store }

func (s unreplicated) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond) // the script runs at once, and WAIT takes the rest
	defer cancel()
	changes = slices.Clone(changes)
	for i := range changes {
		changes[i].Lineage = ""
	}
	outs, err := s.Store.Apply(ctx, changes...)
	for i, out := range outs {
		outs[i].Lineage = ""
		if out.Status == driver.Unknown && strings.Contains(out.Err.Error(), "have answered WAIT") {
			outs[i] = driver.Outcome{Status: driver.Applied}
		}
	}
	return outs, err
}

func (s unreplicated) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	res, err := s.Store.Read(ctx, kind, ids...)
	res.Lineage = ""
	return res, err
}

func (s unreplicated) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	res, err := s.Store.List(ctx, kind, q)
	res.Lineage = ""
	return res, err
}

// The same failovers find out a store that does without WAIT and without lineages of writes.
func TestBrokenRedisCluster(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "several real servers")
	t.Parallel()
	seed := seed(t)
	f := newClusterFaults(t, seed)
	documents := redisDatabase("Redis Cluster", f.uri(), "documents")
	open := documents.open
	documents.open = func(ctx context.Context) (store.Store, error) {
		s, err := open(ctx)
		return unreplicated{s}, err
	}
	r := newDocumentRun(t, documents, seed, odds{})
	whileRunning(t, func(ctx context.Context) {
		for f.failed == nil && pauseBetween(ctx, f.random, 500, 1500) {
			if master, replicas := f.roles(context.WithoutCancel(ctx)); master >= 0 {
				f.loseSuffix(ctx, master, replicas)
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var found []finding
	for ctx.Err() == nil && !rejected(found) {
		found = r.run(ctx)
	}
	wantFound(t, seed, found, true)
	t.Logf("%v; faults: %v", r.tally, f.injected)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

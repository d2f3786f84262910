package linearizability

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	_ "github.com/shardctl/shardctl/pkg/store/quorum"
	_ "github.com/shardctl/shardctl/pkg/store/redis" // quorums of Redis are opened by URI
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// quorumServers are real Redis servers that make up a quorum, each behind a link.
type quorumServers struct {
	servers  []*testservers.Server
	links    []*testservers.Proxy
	random   *rand.Rand
	injected *injected
	failed   error
}

func startQuorum(t *testing.T, n int, seed uint64) *quorumServers {
	t.Helper()
	q := &quorumServers{random: rand.New(rand.NewPCG(seed, 8000)), injected: &injected{}}
	for range n {
		server := testservers.Start(t, testservers.KindRedis)
		q.servers = append(q.servers, server)
		q.links = append(q.links, server.Link())
	}
	t.Cleanup(func() {
		if q.failed != nil {
			t.Error(q.failed)
		}
	})
	return q
}

// database is a new one on all servers, set up.
func (q *quorumServers) database(t *testing.T) database {
	t.Helper()
	uris := make([]string, len(q.servers))
	for i, s := range q.servers {
		uris[i] = s.Via(q.links[i], s.Database())
	}
	c := store.Config{URI: "quorum:" + strings.Join(uris, ","), Timeout: 3 * time.Second}
	if _, err := store.Init(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	db := database{name: "a quorum of Redis", freshLists: true, countsMore: true}
	db.open = func(ctx context.Context) (store.Store, error) { return store.Open(ctx, c) }
	return db
}

// run has a minority away most of the time: killed, frozen or partitioned. Now and then a majority is. Those that come
// back have some time to be connected to before the next ones go: leases are of a second.
func (q *quorumServers) run(ctx context.Context) {
	for q.failed == nil && pauseBetween(ctx, q.random, 300, 1200) {
		order := q.random.Perm(len(q.servers))
		down := (len(order) - 1) / 2
		if q.random.IntN(8) == 0 {
			q.injected.add("a majority is away")
			down++
		}
		var back []func()
		for _, i := range order[:down] {
			back = append(back, q.takeAway(ctx, i))
		}
		pauseBetween(ctx, q.random, 500, 3000)
		for _, f := range back {
			f()
		}
	}
}

// takeAway takes one server away, and returns what brings it back.
func (q *quorumServers) takeAway(ctx context.Context, i int) (back func()) {
	server, link := q.servers[i], q.links[i]
	switch q.random.IntN(4) {
	case 0:
		q.injected.add("server dies")
		server.Kill()
		return func() {
			if err := server.Server().Start(context.WithoutCancel(ctx)); err != nil && q.failed == nil {
				q.failed = err
			}
		}
	case 1:
		q.injected.add("server stands still")
		server.Freeze()
		return server.Thaw
	case 2:
		q.injected.add("nothing passes")
		link.Block()
		return link.Unblock
	default:
		q.injected.add("connections cut, and nothing passes")
		link.Block()
		link.Cut()
		return link.Unblock
	}
}

// Five real servers, of which two are away most of the time, and three at times: nothing that was acknowledged is lost.
// A call waits where three are away, so that there are fewer histories than of other stores.
func TestQuorumOfRedis(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "several real servers")
	t.Parallel()
	seed := seed(t)
	q := startQuorum(t, 5, seed)
	d := newDocumentRun(t, q.database(t), seed, usual)
	whileRunning(t, q.run)
	ctx, cancel := context.WithTimeout(t.Context(), max(length(), 25*time.Second)) // what it waits is most of that
	defer cancel()
	complain(t, seed, d.run(ctx))
	t.Logf("documents: %v; faults on the way: %v; of servers: %v", d.tally, d.faults, q.injected)
	enough(t, min(*seconds, long-1), d.tally.histories.Load(), q.injected, d.faults)
}

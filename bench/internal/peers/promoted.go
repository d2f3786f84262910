//go:build linux

package peers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/test/e2e/history"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// ackTime is how long a lock may take that no replica gets, before the master is killed.
const ackTime = 2 * time.Second

// promotion is what became of a lock whose master was killed while no replica had it.
type promotion struct {
	acked bool          // its holder got an answer that it has the lock
	until time.Duration // from the kill until a holder has it by the new master
	clash clash
}

// Promoted measures locks in Redis whose master dies before a replica has them, and returns a table. Each round has
// three servers of its own, and each system is in a round of its own at the same time.
func Promoted(ctx context.Context, l *lab.Lab) (string, error) {
	quiet := l.Quiet.Part()
	defer quiet.Close()
	redisGroup := groups[slices.IndexFunc(groups, func(g group) bool { return g.name == "redis" })]
	columns := redisGroup.columns(site{})
	var version string
	for range l.Full(3, 1) {
		var all sync.WaitGroup
		for _, c := range columns {
			set, err := startPromotable(ctx, l)
			if err != nil {
				return "", err
			}
			version = set.version
			c.uri = set.front.Addr
			if c.id == mutexID {
				c.uri = redisGroup.store(c.uri) + "?nodes=3"
			}
			all.Go(func() {
				defer set.close()
				one, err := c.promote(ctx, set)
				if c.problem("promotion", err); err == nil {
					c.promoted = append(c.promoted, one)
				}
			})
		}
		all.Wait()
	}
	broke(l, columns)
	return head(quiet) + promotions(version, columns), ctx.Err()
}

// promote has a holder take a lock that no replica gets, and then another by the new master.
func (c *column) promote(ctx context.Context, set *promotable) (promotion, error) {
	const key = "promoted"
	both, end, err := c.members(ctx, "promoted", 2, crashLease)
	defer end()
	if err != nil {
		return promotion{}, err
	}
	holds, next := both[0], both[1]
	set.replication.Block()
	first := holds.order("acquire", key)
	var p promotion
	select {
	case a := <-first:
		if a.err != nil {
			return p, a.err
		}
		p.acked = true
		if _, err := holds.do(ctx, "work", key); err != nil {
			return p, err
		}
	case <-time.After(ackTime):
	}
	second := first
	if p.acked {
		second = next.order("acquire", key)
	}
	at := history.Now()
	if err := set.promote(ctx); err != nil {
		return p, err
	}
	taken := next.await(ctx, second)
	if taken.err != nil {
		return p, fmt.Errorf("the new master does not give it: %w", taken.err)
	}
	p.until = taken.end.Sub(at)
	if !p.acked {
		return p, nil
	}
	if err := clock.Sleep(ctx, clashTime); err != nil {
		return p, err
	}
	acted, err := holds.do(ctx, "report", key)
	p.clash = clash{overlap: max(0, acted.begin.Sub(taken.end)), told: acted.end != 0}
	return p, err
}

// promotions is the table.
func promotions(version string, columns []*column) string {
	on := site{server: fmt.Sprintf("Redis %s, a master and two replicas, T = %.0f s", version, crashLease.Seconds())}
	t := lockTable{on, columns}
	return t.markdown(t.base(), []row{
		{"no replica has the lock: it is acknowledged", func(c, _ *column) string {
			return fmt.Sprintf("%d of %d times", len(c.acknowledged()), len(c.promoted))
		}},
		{"the master is killed, a replica promoted: both act for", func(c, _ *column) string {
			if acked := c.acknowledged(); len(acked) > 0 {
				return clashes(acked)
			}
			return "0; there was one"
		}},
		{"from the kill until the new master gives it: p50 / longest", func(c, _ *column) string {
			var until []time.Duration
			for _, p := range c.promoted {
				until = append(until, p.until)
			}
			return spread(until, 100)
		}},
	})
}

// acknowledged is what became of the locks that no replica had, and that were granted to a holder.
func (c *column) acknowledged() (all []clash) {
	for _, p := range c.promoted {
		if p.acked {
			all = append(all, p.clash)
		}
	}
	return all
}

// promotable is a master of two replicas. Clients reach the master by front, and replicas by replication.
type promotable struct {
	version            string
	servers            []*testprocess.Server // the master first
	front, replication *testprocess.Proxy
}

func startPromotable(ctx context.Context, l *lab.Lab) (set *promotable, err error) {
	set = &promotable{}
	defer func() {
		if err != nil {
			set.close()
		}
	}()
	dir, err := os.MkdirTemp(l.Work, "promoted-")
	if err != nil {
		return set, err
	}
	for i := range 3 {
		s, err := testservers.Open(ctx, testservers.KindRedis, filepath.Join(dir, fmt.Sprint(i)),
			testprocess.Options{Config: []string{"repl-diskless-sync-delay 0"}})
		if err != nil {
			return set, err
		}
		set.servers = append(set.servers, s)
	}
	master := set.servers[0].Addr()
	if set.front, err = testprocess.NewProxy(ctx, testprocess.Loopback+":0", master); err != nil {
		return set, err
	}
	if set.replication, err = testprocess.NewProxy(ctx, testprocess.Loopback+":0", master); err != nil {
		return set, err
	}
	for _, replica := range set.servers[1:] {
		if err := follow(ctx, replica.Addr(), set.replication.Addr); err != nil {
			return set, err
		}
	}
	return set, set.online(ctx, master, 2)
}

// follow makes the server at an address a replica of another one.
func follow(ctx context.Context, replica, of string) error {
	host, port, err := net.SplitHostPort(of)
	if err != nil {
		return err
	}
	return redisDo(ctx, replica, "REPLICAOF", host, port)
}

func redisDo(ctx context.Context, addr string, args ...any) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }() // what was asked has been answered
	return client.Do(ctx, args...).Err()
}

// online waits until a master has so many replicas in sync.
func (set *promotable) online(ctx context.Context, master string, replicas int) error {
	client := redis.NewClient(&redis.Options{Addr: master})
	defer func() { _ = client.Close() }() // only read
	for {
		info, err := client.InfoMap(ctx, "replication", "server").Result()
		if err != nil {
			return err
		}
		n := 0
		for name, value := range info["Replication"] {
			if strings.HasPrefix(name, "slave") && strings.Contains(value, "state=online") {
				n++
			}
		}
		if set.version = info["Server"]["redis_version"]; n == replicas {
			return nil
		}
		if err := clock.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// promote kills the master. A replica takes its place, and the other one follows it.
func (set *promotable) promote(ctx context.Context) error {
	set.servers[0].Kill()
	next := set.servers[1].Addr()
	if err := redisDo(ctx, next, "REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	set.front.Lead(next)
	set.front.Cut()
	return follow(ctx, set.servers[2].Addr(), next)
}

func (set *promotable) close() {
	for _, p := range []*testprocess.Proxy{set.front, set.replication} {
		if p != nil {
			p.Close()
		}
	}
	for _, s := range set.servers {
		s.Close()
	}
}

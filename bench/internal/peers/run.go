//go:build linux

package peers

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/bench/internal/replicas"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// Run measures all systems and returns the table.
func Run(ctx context.Context, l *lab.Lab) (string, error) {
	quiet := l.Quiet.Part()
	defer quiet.Close()
	columns, err := startAll(ctx, l)
	defer func() {
		for i := range columns {
			columns[i].close()
		}
	}()
	if err != nil {
		return "", err
	}
	for i := range columns { // one after the other: these are times
		c := &columns[i]
		l.Note("  "+c.name(), "%s", c.server)
		c.problem("acquire and release", c.uncontended(ctx, lease, l.Times(200, 20)))
		c.problem("hand-over", c.handOvers(ctx, l.Times(40, 4)))
	}
	// Fail-overs are mostly waiting for a lease to run out: all systems at once, so that all have the same machine.
	ended := make(chan struct{})
	for i := range columns {
		go func() {
			columns[i].problem("fail-over", columns[i].crashes(ctx, l.Times(5, 1)))
			ended <- struct{}{}
		}()
	}
	for range columns {
		<-ended
	}
	window := 10 * time.Second
	if l.Quick {
		window = 5 * time.Second
	}
	for i := range columns {
		columns[i].problem("idle", columns[i].holdMany(ctx, window))
	}
	whole := product(ctx, l, window)
	all := []*column{&columns[0], whole}
	for i := range columns[1:] {
		all = append(all, &columns[i+1])
	}
	broke(l, all)
	return table(all, quiet), ctx.Err()
}

// product measures `shardctl run` itself: commands in processes of their own, a guard, and the balancer, which no
// lock library has.
func product(ctx context.Context, l *lab.Lab, window time.Duration) *column {
	c := &column{
		Peer: Peer{id: "run", title: "`shardctl run`: guard, commands", poll: All[0].poll, bound: All[0].bound},
		site: site{server: "as `pkg/elect`"},
	}
	var err error
	c.gaps, err = replicas.Gaps(ctx, l, l.Times(10, 2))
	c.problem("hand-over", err)
	c.failovers, err = replicas.Failovers(ctx, l, crashLease, l.Times(3, 1))
	c.problem("fail-over", err)
	t, err := replicas.IdleCost(ctx, l, idleHolders, idleLocks, lease, window)
	c.problem("idle", err)
	if err == nil {
		writes := t.Heartbeats + t.Other
		c.cost = &rates{writes: t.PerSecond(writes), reads: t.PerSecond(t.Commands - writes)}
	}
	return c
}

// startAll starts every system in a directory of the lab. One that cannot be had is printed, and left out.
func startAll(ctx context.Context, l *lab.Lab) ([]column, error) {
	var columns []column
	for _, p := range All {
		dir, err := os.MkdirTemp(l.Work, p.id+"-")
		if err != nil {
			return columns, err
		}
		s, err := p.start(ctx, l, dir)
		if ctx.Err() != nil {
			return columns, context.Cause(ctx)
		}
		if err != nil {
			l.Broke(p.name(), "not measured: %v", err)
			continue
		}
		columns = append(columns, column{Peer: p, site: s})
	}
	return columns, nil
}

// site is a running system.
type site struct {
	target

	server string // what runs, and its version
	idle   func(ctx context.Context, window time.Duration) (rates, error)
	// link is the network of one client, at a URI of its own.
	link  func(ctx context.Context) (*link, error)
	close func()
}

// link is a network that can be cut: connections stay open, and nothing goes through.
type link struct {
	uri        string
	cut, close func()
}

// proxied is a link to a server at an address, which the URI names.
func proxied(uri, addr string) func(context.Context) (*link, error) {
	return func(ctx context.Context) (*link, error) {
		p, err := testprocess.NewProxy(ctx, testprocess.Loopback+":0", addr)
		if err != nil {
			return nil, err
		}
		return &link{uri: strings.ReplaceAll(uri, addr, p.Addr), cut: p.Block, close: p.Close}, nil
	}
}

// rates are what a system is asked in a second.
type rates struct {
	writes, reads float64
}

// startMongo makes a database on the replica set that the lab has.
func startMongo(ctx context.Context, l *lab.Lab, _ string) (site, error) {
	name, uri, drop := l.DB.Fresh(ctx)
	idle := func(ctx context.Context, window time.Duration) (rates, error) {
		db := l.DB.Client.Database(name)
		if err := lab.ProfileBig(ctx, db); err != nil {
			return rates{}, err
		}
		t, err := lab.WatchTraffic(ctx, db, window)
		writes := t.Heartbeats + t.Other
		return rates{writes: t.PerSecond(writes), reads: t.PerSecond(t.Commands - writes)}, err
	}
	return site{
		target: target{uri: uri}, server: "MongoDB " + l.DB.Version(ctx) + ", three nodes, majority writes",
		idle: idle, close: drop,
		link: func(ctx context.Context) (*link, error) {
			to, err := l.DB.Set.Link(ctx)
			if err != nil {
				return nil, err
			}
			return &link{
				uri: testmongo.WithDatabase(to.URI(), name), cut: func() { to.Cut() }, close: to.Close,
			}, nil
		},
	}, nil
}

func startEtcd(ctx context.Context, _ *lab.Lab, dir string) (site, error) {
	s, err := testservers.Open(ctx, testservers.KindEtcd, filepath.Join(dir, "data"), testprocess.Options{})
	if err != nil {
		return site{}, err
	}
	idle := between(func(ctx context.Context) (rates, error) {
		m, err := scrape(ctx, "http://"+s.Addr()+"/metrics", "")
		return rates{
			writes: m.sum("etcd_server_proposals_committed_total"), reads: m.sum("etcd_mvcc_range_total"),
		}, err
	})
	return site{
		target: target{uri: s.Addr()},
		server: "etcd " + versionAt(ctx, "http://"+s.Addr()+"/version", "", "etcdserver") + ", one node", idle: idle,
		link: proxied(s.Addr(), s.Addr()), close: s.Close,
	}, nil
}

// startRedis starts a Redis that syncs its file every second, as the default of its documentation has it.
func startRedis(ctx context.Context, _ *lab.Lab, dir string) (site, error) {
	return redisSite(ctx, dir, "everysec")
}

// startRedisAlways starts a Redis that has each write on disk before it answers: all systems pay for what pkg/mutex
// promises.
func startRedisAlways(ctx context.Context, _ *lab.Lab, dir string) (site, error) {
	return redisSite(ctx, dir, "always")
}

func redisSite(ctx context.Context, dir, fsync string) (site, error) {
	s, err := testprocess.Open(ctx, string(testservers.KindRedis), testservers.NewRedis("appendfsync "+fsync),
		filepath.Join(dir, "data"), testprocess.Options{})
	if err != nil {
		return site{}, err
	}
	client := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = client.Close() }() // only read
	info, err := client.InfoMap(ctx, "server").Result()
	if err != nil {
		s.Close()
		return site{}, err
	}
	return site{
		target: target{uri: s.Addr()},
		server: "Redis " + info["Server"]["redis_version"] + ", one node, appendfsync " + fsync,
		idle:   between(func(ctx context.Context) (rates, error) { return redisCalls(ctx, s.Addr()) }),
		link:   proxied(s.Addr(), s.Addr()), close: s.Close,
	}, nil
}

// startKube starts a kube-apiserver with an etcd of its own.
func startKube(ctx context.Context, l *lab.Lab, dir string) (site, error) {
	etcd, err := startEtcd(ctx, l, filepath.Join(dir, "etcd"))
	if err != nil {
		return site{}, err
	}
	token := rand.Text()
	s, err := testprocess.Open(ctx, "kube-apiserver", &kubeServer{etcd: etcd.uri, token: token},
		filepath.Join(dir, "kube"), testprocess.Options{})
	if err != nil {
		etcd.close()
		return site{}, err
	}
	idle := between(func(ctx context.Context) (rates, error) {
		m, err := scrape(ctx, "https://"+s.Addr()+"/metrics", token)
		of := func(verbs ...string) (n float64) {
			for _, verb := range verbs {
				n += m.sum("apiserver_request_total", `resource="leases"`, `verb="`+verb+`"`)
			}
			return n
		}
		return rates{writes: of("POST", "PUT", "PATCH", "DELETE"), reads: of("GET", "LIST")}, err
	})
	return site{
		target: target{uri: s.Addr(), token: token},
		server: "kube-apiserver " + versionAt(ctx, "https://"+s.Addr()+"/version", token, "gitVersion") +
			" on etcd, one node each",
		idle: idle, link: proxied(s.Addr(), s.Addr()), close: func() { s.Close(); etcd.close() },
	}, nil
}

// startPostgres starts one that takes the connections of many clients.
func startPostgres(ctx context.Context, l *lab.Lab, dir string) (site, error) {
	s, err := testservers.Open(ctx, testservers.KindPostgres, filepath.Join(dir, "data"),
		testprocess.Options{Config: []string{"max_connections = 600"}})
	if err != nil {
		return site{}, err
	}
	uri, err := testservers.Database(ctx, s)
	if err != nil {
		s.Close()
		return site{}, err
	}
	db, err := sql.Open("postgres", uri)
	if err != nil {
		s.Close()
		return site{}, err
	}
	var version string
	if err := db.QueryRowContext(ctx, "SHOW server_version").Scan(&version); err != nil {
		s.Close()
		return site{}, fmt.Errorf("version of PostgreSQL: %w", err)
	}
	version, _, _ = strings.Cut(version, " ")
	return site{
		target: target{uri: uri}, server: "PostgreSQL " + version + ", one node",
		idle: between(func(ctx context.Context) (rates, error) { return postgresRows(ctx, db) }),
		link: proxied(uri, s.Addr()),
		close: func() {
			_ = db.Close()
			s.Close()
		},
	}, nil
}

//go:build linux

package peers

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/bench/internal/servers"
)

// HolderCommand is the argument by which this program is a Holder.
const HolderCommand = "holder"

// Peer is one system.
type Peer struct {
	id     string
	module string // whose version is the system's
	title  string // %s: the version
	poll   string // how its waiters learn of a release
	open   func(context.Context, target) (locks, error)
	start  func(context.Context, *lab.Lab, string) (site, error) // in a directory of its own
	bound  func(lease time.Duration) string                      // of a fail-over
}

// All are the systems in the order of the table.
var All = []Peer{
	{
		id: "elect", title: "shardctl, `pkg/elect`", poll: "woken by a change stream",
		open: openElect, start: startMongo,
		bound: func(t time.Duration) string { return fmt.Sprintf("0.9 T to T + 1 s = %v", t+time.Second) },
	},
	{
		id: "etcd", module: "go.etcd.io/etcd/client/v3", title: "etcd concurrency %s",
		poll: "woken by a watch; kept alive every T/3",
		open: openEtcd, start: startEtcd,
		bound: func(t time.Duration) string {
			return fmt.Sprintf("⅔ T to T + 0.5 s (the server looks twice a second) = %v", t+500*time.Millisecond)
		},
	},
	{
		id: "redis", module: "github.com/bsm/redislock", title: "redislock %s",
		poll: "looks every 100 ms, as its example; refreshed every T/3",
		open: openRedis, start: startRedis,
		bound: func(t time.Duration) string { return fmt.Sprintf("⅔ T to T + 0.1 s = %v", t+redisRetry) },
	},
	{
		id: "kube", module: "k8s.io/client-go", title: "Kubernetes Lease, client-go %s",
		// The defaults 15 s, 10 s and 2 s, scaled to T.
		poll: "looks every 2/15 T with a jitter of up to 1.2 times that, and renews as often: the defaults",
		open: openKube, start: startKube,
		bound: func(t time.Duration) string {
			return fmt.Sprintf("T, and up to two looks = %v", (t + 2*t*2/15*22/10).Round(10*time.Millisecond))
		},
	},
	{
		id: "mongo", title: "a document per lock in MongoDB, hand-written",
		poll: "looks every 250 ms; renewed every T/3", open: openMongo, start: startMongo,
		bound: func(t time.Duration) string { return fmt.Sprintf("⅔ T to T + 0.25 s = %v", t+mongoPoll) },
	},
}

// name is the title with the version of the library.
func (p Peer) name() string {
	if p.module == "" {
		return p.title
	}
	version := "?"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == p.module {
				version = strings.TrimPrefix(dep.Version, "v")
			}
		}
	}
	return fmt.Sprintf(p.title, version)
}

// site is a running system.
type site struct {
	target

	server string // what runs, and its version
	idle   func(ctx context.Context, window time.Duration) (rates, error)
	close  func()
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
	}, nil
}

func startEtcd(ctx context.Context, _ *lab.Lab, dir string) (site, error) {
	s, err := servers.Etcd(ctx, dir)
	if err != nil {
		return site{}, err
	}
	idle := between(func(ctx context.Context) (rates, error) {
		m, err := scrape(ctx, "http://"+s.Addr+"/metrics", "")
		return rates{
			writes: m.sum("etcd_server_proposals_committed_total"), reads: m.sum("etcd_mvcc_range_total"),
		}, err
	})
	return site{
		target: target{uri: s.Addr}, server: "etcd " + s.Version + ", one node", idle: idle,
		close: s.Close,
	}, nil
}

func startRedis(ctx context.Context, _ *lab.Lab, dir string) (site, error) {
	s, err := servers.Redis(ctx, dir)
	if err != nil {
		return site{}, err
	}
	idle := between(func(ctx context.Context) (rates, error) { return redisCalls(ctx, s.Addr) })
	return site{
		target: target{uri: s.Addr}, server: "Redis " + s.Version + ", one node, appendfsync everysec",
		idle: idle, close: s.Close,
	}, nil
}

func startKube(ctx context.Context, _ *lab.Lab, dir string) (site, error) {
	s, err := servers.Kube(ctx, dir)
	if err != nil {
		return site{}, err
	}
	idle := between(func(ctx context.Context) (rates, error) {
		m, err := scrape(ctx, "https://"+s.Addr+"/metrics", s.Token)
		of := func(verbs ...string) (n float64) {
			for _, verb := range verbs {
				n += m.sum("apiserver_request_total", `resource="leases"`, `verb="`+verb+`"`)
			}
			return n
		}
		return rates{writes: of("POST", "PUT", "PATCH", "DELETE"), reads: of("GET", "LIST")}, err
	})
	return site{
		target: target{uri: s.Addr, token: s.Token},
		server: "kube-apiserver " + s.Version + " on etcd, one node each", idle: idle, close: s.Close,
	}, nil
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

//go:build linux

package peers

import (
	"context"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/testmongo"
	"github.com/shardctl/shardctl/internal/testprocess"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/bench/internal/servers"
)

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
		link: proxied(s.Addr, s.Addr), close: s.Close,
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
		server: "kube-apiserver " + s.Version + " on etcd, one node each", idle: idle,
		link: proxied(s.Addr, s.Addr), close: s.Close,
	}, nil
}

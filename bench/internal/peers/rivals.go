//go:build linux

package peers

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/internal/testservers"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

// mutexID is the peer that the others are compared with.
const mutexID = "mutex"

// rivals are the systems of the tables of locks that All lacks.
var rivals = []Peer{
	{id: mutexID, title: "shardctl, `pkg/mutex`", poll: "woken; one session renews all", open: openMutex},
	{
		id: "redsync", module: "github.com/go-redsync/redsync/v4", title: "redsync %s",
		poll: "looks every 50–250 ms; the user extends, here every T/3", open: openRedsync,
	},
	{
		id: "redisson", title: "Redisson " + redissonVersion() + ", RLock", program: redisson,
		poll: "woken by publish and subscribe; its watchdog renews every T/3",
	},
	{
		id: "redisson-fair", title: "Redisson " + redissonVersion() + ", FairLock", program: redisson,
		poll: "woken in order; its watchdog renews every T/3",
	},
	{
		id: "pglock", module: "cirello.io/pglock", title: "pglock %s",
		poll: "looks every T; it renews every T/4", open: openPglock,
	},
	{
		id: "shedlock", title: "documents as ShedLock's",
		poll: "looks every 250 ms (ShedLock does not wait); renewed every T/2", open: openShedlock,
	},
}

// group are systems on one server.
type group struct {
	name  string
	start func(context.Context, *lab.Lab, string) (site, error)
	// store is the URI by which pkg/mutex finds the server; nil: that of all.
	store func(uri string) string
	peers []string
}

var groups = []group{
	{
		"redis", startRedisAlways, func(addr string) string { return "redis://" + addr + "/1" },
		[]string{mutexID, "redsync", "redis", "redisson", "redisson-fair"},
	},
	{"etcd", startEtcd, func(addr string) string { return "etcd://" + addr + "/bench" }, []string{mutexID, "etcd"}},
	{"postgres", startPostgres, nil, []string{mutexID, "pglock"}},
	{"mongodb", startMongo, nil, []string{mutexID, "shedlock"}},
	{"kubernetes", startKube, nil, []string{"kube"}},
}

// columns are the systems of a group on its server.
func (g group) columns(s site) []*column {
	var all []*column
	for _, id := range g.peers {
		p, _ := byID(id)
		c := &column{Peer: p, site: s}
		if id == mutexID && g.store != nil {
			c.uri = g.store(s.uri)
			open := s.link
			c.link = func(ctx context.Context) (*link, error) {
				to, err := open(ctx)
				if err == nil {
					to.uri = g.store(to.uri)
				}
				return to, err
			}
		}
		all = append(all, c)
	}
	return all
}

// startRedisAlways starts a Redis that has each write on disk before it answers: all systems pay for what pkg/mutex
// promises.
func startRedisAlways(ctx context.Context, l *lab.Lab, dir string) (site, error) {
	s, err := testservers.Open(ctx, testservers.KindRedis, filepath.Join(dir, "data"), testprocess.Options{})
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
		server: "Redis " + info["Server"]["redis_version"] + ", one node, appendfsync always",
		idle:   between(func(ctx context.Context) (rates, error) { return redisCalls(ctx, s.Addr()) }),
		link:   proxied(s.Addr(), s.Addr()), close: s.Close,
	}, nil
}

// startPostgres starts one with room for the connections of many clients.
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

//go:build linux

package peers

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
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
		poll: "looks every 250 ms; renewed every T/3", open: openDocuments(3, true), start: startMongo,
		bound: func(t time.Duration) string { return fmt.Sprintf("⅔ T to T + 0.25 s = %v", t+mongoPoll) },
	},
}

// byID finds a system among all.
func byID(id string) (Peer, bool) {
	for _, p := range slices.Concat(All, rivals) {
		if p.id == id {
			return p, true
		}
	}
	return Peer{}, false
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
		id: "pglock", module: "cirello.io/pglock", title: "pglock %s",
		poll: "looks every T; it renews every T/4", open: openPglock,
	},
	{
		id: "shedlock", title: "documents as ShedLock's",
		poll: "looks every 250 ms (ShedLock does not wait); renewed every T/2", open: openDocuments(2, false),
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
		[]string{mutexID, "redsync", "redis"},
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

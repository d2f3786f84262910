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
	// program is the command of a Holder that is no part of this program, without its flags.
	program func(context.Context) ([]string, error)
	start   func(context.Context, *lab.Lab, string) (site, error) // in a directory of its own
	bound   func(lease time.Duration) string                      // of a fail-over
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

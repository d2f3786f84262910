package linearizability

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/zookeeper"
	"github.com/shardctl/shardctl/test/testservers"
)

// zooFaults does to an ensemble what happens to ensembles, by seed, until it is asked to end.
type zooFaults struct {
	ensemble *testservers.ZooKeepers
	links    []*testservers.Proxy // to each server, for each database
	random   *rand.Rand
	injected *injected
	hard     time.Time // no election before
}

func (f *zooFaults) run(ctx context.Context) {
	f.hard = time.Now().Add(betweenElections / 2)
	for f.pause(ctx, 100, 800) {
		if time.Now().After(f.hard) {
			f.election(context.WithoutCancel(ctx))
			f.hard = time.Now().Add(betweenElections)
			continue
		}
		link := f.links[f.random.IntN(len(f.links))]
		switch f.random.IntN(6) {
		case 0:
			f.injected.add("a server stands still")
			s := f.ensemble.Servers[f.random.IntN(len(f.ensemble.Servers))]
			s.Freeze()
			f.pause(ctx, 20, 800)
			s.Thaw()
		case 1:
			f.injected.add("nothing passes to a server")
			link.Block()
			f.pause(ctx, 50, 2500)
			link.Unblock()
		default:
			f.injected.add("connections to a server cut")
			link.Cut()
		}
	}
}

func (f *zooFaults) pause(ctx context.Context, from, to int) bool {
	return pauseBetween(ctx, f.random, from, to)
}

// election makes the leader die, stand still until it is deposed, or be deposed with writes that no other server has.
func (f *zooFaults) election(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	leader, err := f.ensemble.FindLeader(ctx)
	if err != nil {
		return
	}
	switch f.random.IntN(4) {
	case 0:
		f.injected.add("leader dies")
		leader.Kill()
		f.pause(ctx, 50, 1500)
		_ = leader.Server().Start(ctx) // not in time: the histories show it
	case 1, 2:
		f.injected.add("leader stands still")
		leader.Freeze()
		f.pause(ctx, 500, 4000)
		leader.Thaw()
	case 3:
		f.injected.add("leader is left alone, then deposed")
		f.deposed(ctx, leader)
	}
}

// deposed has the leader take writes that no other server has, and lose its office before it can pass them on.
func (f *zooFaults) deposed(ctx context.Context, leader *testservers.Server) {
	others := f.ensemble.Others(leader)
	for _, s := range others {
		s.Freeze()
	}
	f.pause(ctx, 50, 600)
	leader.Freeze()
	for _, s := range others {
		s.Thaw()
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	rest := *f.ensemble
	rest.Servers = others
	_, _ = rest.FindLeader(limited) // none in time: then it stays what it was
	leader.Thaw()
}

// database is one of the ensemble's, with a link of its own to each server.
func (f *zooFaults) database() database {
	uri := f.ensemble.Database()
	for _, s := range f.ensemble.Servers {
		link := s.Link()
		f.links = append(f.links, link)
		uri = strings.Replace(uri, s.Addr, link.Addr, 1)
	}
	return database{name: "ZooKeeper", open: func(ctx context.Context) (store.Store, error) {
		return opened(zookeeper.Open(ctx, zookeeper.Options{URI: uri, Timeout: 3 * time.Second}))
	}}
}

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	faults := &zooFaults{
		ensemble: testservers.StartZooKeepers(t, 3), random: rand.New(rand.NewPCG(seed, 7000)), injected: &injected{},
	}
	documents, locks := faults.database(), faults.database()
	whileRunning(t, faults.run)
	record(t, seed, documents, locks, faults.injected)
}

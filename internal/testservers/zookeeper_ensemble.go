//go:build unix

package testservers

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// electionTimeout is how long [ZooKeepers.Leader] waits for an election on a busy machine.
const electionTimeout = time.Minute

// ZooKeepers is an ensemble of ZooKeeper servers, one of which leads.
type ZooKeepers struct {
	Servers []*Server
	tb      testing.TB
}

// StartZooKeepers starts an ensemble of n servers that ends with the test. Config lines are for all of them.
func StartZooKeepers(tb testing.TB, n int, config ...string) *ZooKeepers {
	tb.Helper()
	all := testprocess.Fresh(tb, family, string(KindZooKeeper),
		func(ctx context.Context, dir string) (*servers, error) {
			return openZooKeepers(ctx, dir, n, config)
		})
	z := &ZooKeepers{tb: tb}
	for _, server := range all.all {
		z.Servers = append(z.Servers, use(tb, server))
	}
	z.Leader()
	return z
}

// openZooKeepers starts all at once: none of them serves clients without a majority.
func openZooKeepers(ctx context.Context, dir string, n int, config []string) (*servers, error) {
	ports, err := testprocess.FreePorts(ctx, 3*n)
	if err != nil {
		return nil, err
	}
	of := make([][]int, n)
	for i := range of {
		of[i] = ports[3*i : 3*i+3]
	}
	opened, errs := make([]*testprocess.Server, n), make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			opened[i], errs[i] = family.Open(ctx, string(KindZooKeeper), &zookeeper{id: i + 1, ports: of},
				filepath.Join(dir, strconv.Itoa(i+1)), testprocess.Options{Config: config, Ports: of[i][:1]})
		})
	}
	group.Wait()
	all := &servers{}
	for i := range n {
		if errs[i] == nil {
			all.all = append(all.all, opened[i])
		}
	}
	for _, err := range errs {
		if err != nil {
			all.Close()
			return nil, err
		}
	}
	return all, nil
}

// Addrs are HOST:PORT,… of all.
func (z *ZooKeepers) Addrs() string {
	addrs := make([]string, len(z.Servers))
	for i, s := range z.Servers {
		addrs[i] = s.Addr
	}
	return strings.Join(addrs, ",")
}

// Database makes a database of its own, and returns its URI, which names all servers.
func (z *ZooKeepers) Database() string {
	z.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(z.tb.Context()), databaseTimeout)
	defer cancel()
	uri, err := zookeeperDatabase(ctx, z.Addrs())
	if err != nil {
		z.tb.Fatal(err)
	}
	return uri
}

// Leader waits until one leads and all others follow, and fails the test when that takes a minute. A server that was
// just started may still fetch the leader's data. Elections fail until it has, each after initLimit.
func (z *ZooKeepers) Leader() *Server {
	z.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(z.tb.Context()), electionTimeout)
	defer cancel()
	leader, err := z.await(ctx, func(leader *Server, serving int) bool {
		return leader != nil && serving == len(z.Servers)
	})
	if err != nil {
		z.tb.Fatal(err)
	}
	return leader
}

// FindLeader returns who leads now, whatever the others do. It waits until ctx ends.
func (z *ZooKeepers) FindLeader(ctx context.Context) (*Server, error) {
	return z.await(ctx, func(leader *Server, _ int) bool { return leader != nil })
}

// await asks all servers again and again, until enough says so of the one that leads, if any, and of how many lead or
// follow. Those that were asked so far count.
func (z *ZooKeepers) await(ctx context.Context, enough func(leader *Server, serving int) bool) (*Server, error) {
	for {
		var leader *Server
		serving := 0
		for _, s := range z.Servers {
			brief, cancel := context.WithTimeout(ctx, time.Second)
			mode, err := zookeeperMode(brief, s.Addr)
			cancel()
			if err != nil {
				continue
			}
			serving++
			if mode == "leader" {
				leader = s
			}
			if enough(leader, serving) {
				return leader, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("of %s %d lead or follow: %w", z.Addrs(), serving, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Others are all servers but one.
func (z *ZooKeepers) Others(one *Server) []*Server {
	var others []*Server
	for _, s := range z.Servers {
		if s != one {
			others = append(others, s)
		}
	}
	return others
}

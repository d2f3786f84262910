//go:build unix

package testservers

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// EtcdCluster is three members, of which any two are a majority.
type EtcdCluster struct {
	Members []*Server
	tb      testing.TB
}

// StartEtcdCluster starts a cluster that ends with the test. Config lines are for all members.
func StartEtcdCluster(tb testing.TB, config ...string) *EtcdCluster {
	tb.Helper()
	all := testprocess.Fresh(tb, family, string(KindEtcd), func(ctx context.Context, dir string) (*servers, error) {
		return openEtcdCluster(ctx, dir, config)
	})
	c := &EtcdCluster{tb: tb}
	for _, s := range all.all {
		c.Members = append(c.Members, use(tb, s))
	}
	return c
}

// openEtcdCluster starts the members at once: none is ready before two run.
func openEtcdCluster(ctx context.Context, dir string, config []string) (*servers, error) {
	const members = 3
	ports, err := testprocess.FreePorts(ctx, members*etcdPorts)
	if err != nil {
		return nil, err
	}
	part := slices.Collect(slices.Chunk(ports, etcdPorts))
	cluster := make([]string, members)
	for i, p := range part {
		cluster[i] = fmt.Sprintf("m%d=http://%s:%d", i, testprocess.Loopback, p[etcdPeers])
	}
	opened, errs := make([]*testprocess.Server, members), make([]error, members)
	var starting sync.WaitGroup
	for i := range members {
		starting.Go(func() {
			name := fmt.Sprintf("m%d", i)
			software := &etcd{name: name, cluster: strings.Join(cluster, ",")}
			opened[i], errs[i] = testprocess.Open(ctx, string(KindEtcd), software, filepath.Join(dir, name),
				testprocess.Options{Ports: part[i], Config: config})
		})
	}
	starting.Wait()
	all := &servers{}
	for i := range members {
		if errs[i] == nil {
			all.all = append(all.all, opened[i])
		} else {
			err = errs[i]
		}
	}
	if err != nil {
		all.Close()
		return nil, err
	}
	return all, nil
}

// Database is the URI of an empty prefix, with all members.
func (c *EtcdCluster) Database() string {
	addrs := make([]string, len(c.Members))
	for i, m := range c.Members {
		addrs[i] = m.Addr
	}
	return "etcd://" + strings.Join(addrs, ",") + "/" + Name()
}

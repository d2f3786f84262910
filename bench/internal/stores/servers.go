//go:build linux

package stores

import (
	"context"
	"os"
	"path/filepath"

	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/internal/testservers"
	// The stores that are measured.
	_ "github.com/shardctl/shardctl/pkg/store/etcd"
	_ "github.com/shardctl/shardctl/pkg/store/mongo"
	_ "github.com/shardctl/shardctl/pkg/store/mysql"
	_ "github.com/shardctl/shardctl/pkg/store/postgres"
	_ "github.com/shardctl/shardctl/pkg/store/redis"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
	_ "github.com/shardctl/shardctl/pkg/store/zookeeper"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

// server is one database under measurement.
type server struct {
	name       string
	extent     string                                            // how many servers it is, after the version
	fresh      func(ctx context.Context) (uri string, err error) // makes an empty database
	pids       []int                                             // of its processes, without their children
	background float64                                           // processors that it uses without clients
	close      func()
}

// kind is one store.
type kind struct {
	name string
	open func(ctx context.Context, b *lab.Lab) (*server, error)
}

// kinds are all: those of the lab, and whatever servers there are for tests.
func kinds() []kind {
	all := []kind{{"mongodb", openMongoDB}, {"sqlite", openSQLite}}
	for _, k := range testservers.Kinds() {
		all = append(all, kind{string(k), func(ctx context.Context, b *lab.Lab) (*server, error) {
			return openServer(ctx, b, k)
		}})
	}
	return all
}

func openMongoDB(ctx context.Context, b *lab.Lab) (*server, error) {
	s := &server{name: "mongodb", extent: ", three servers", close: func() {}}
	for _, node := range b.DB.Set.Nodes() {
		s.pids = append(s.pids, node.PID())
	}
	s.fresh = func(context.Context) (string, error) {
		_, uri, _ := b.DB.Fresh(ctx)
		return uri, nil
	}
	return s, nil
}

func openSQLite(_ context.Context, b *lab.Lab) (*server, error) {
	return &server{name: "sqlite", close: func() {}, fresh: func(context.Context) (string, error) {
		dir, err := os.MkdirTemp(b.Work, "sqlite-")
		return "sqlite:" + filepath.Join(dir, "locks.db"), err
	}}, nil
}

func openServer(ctx context.Context, b *lab.Lab, k testservers.Kind) (*server, error) {
	s, err := testservers.Open(ctx, k, filepath.Join(b.Work, string(k)), testprocess.Options{})
	if err != nil {
		return nil, err
	}
	return &server{
		name: string(k), extent: ", one server", pids: []int{s.PID()}, close: s.Close,
		fresh: func(ctx context.Context) (string, error) { return testservers.Database(ctx, s) },
	}, nil
}

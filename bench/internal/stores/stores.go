//go:build linux

package stores

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/bench/internal/fleet"
	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/bench/internal/replicas"
	"github.com/shardctl/shardctl/internal/sleep"
	"github.com/shardctl/shardctl/pkg/store"
	// The stores that are measured.
	_ "github.com/shardctl/shardctl/pkg/store/etcd"
	_ "github.com/shardctl/shardctl/pkg/store/mongo"
	_ "github.com/shardctl/shardctl/pkg/store/mysql"
	_ "github.com/shardctl/shardctl/pkg/store/postgres"
	_ "github.com/shardctl/shardctl/pkg/store/redis"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
	_ "github.com/shardctl/shardctl/pkg/store/zookeeper"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

const (
	shortLease  = 2 * time.Second
	idleMembers = 10
	idleKeys    = 1_000
	idleWindow  = lab.DefaultLease // ten heartbeats of each member
)

// All measures the stores one after the other, and prints one table. A store that cannot be had here, or whose figures
// cannot be taken, is named below it.
func All(ctx context.Context, b *lab.Lab) error {
	chosen, err := choose(kinds(), b.Stores)
	if err != nil {
		return err
	}
	t := &table{quiet: b.Quiet.Part()}
	defer t.quiet.Close()
	for _, k := range chosen {
		began, load := time.Now(), lab.Load()
		r, err := k.measure(ctx, b)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			t.missing = append(t.missing, fmt.Sprintf("%s: %v", k.name, err))
			if !errors.Is(err, testservers.ErrMissing) {
				b.Broke(k.name, "%v", err)
			}
			continue
		}
		t.rows = append(t.rows, r)
		b.Note("  "+k.name+" took", "%.0f s, load %s before", time.Since(began).Seconds(), load)
	}
	b.Text(t.String())
	return nil
}

// choose takes the kinds of these names; none: all.
func choose(all []kind, names []string) ([]kind, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []kind
	for _, name := range names {
		at := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
		if at < 0 {
			var known []string
			for _, k := range all {
				known = append(known, k.name)
			}
			return nil, fmt.Errorf("no store is called %q: want some of %v", name, known)
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// measure takes each figure on an empty database.
func (k kind) measure(ctx context.Context, b *lab.Lab) (r row, err error) {
	s, err := k.open(ctx, b)
	if err != nil {
		return r, err
	}
	defer s.close()
	if err := s.measureBackground(ctx, time.Duration(b.Full(10, 4))*time.Second); err != nil {
		return r, err
	}
	for _, part := range []func(context.Context, *lab.Lab, *server, string) error{
		r.measureFloor, r.measureLosses, r.measureIdle,
	} {
		uri, err := s.fresh(ctx)
		if err != nil {
			return r, err
		}
		if err := part(ctx, b, s, uri); err != nil {
			return r, err
		}
	}
	return r, r.measureColdStarts(ctx, b, s)
}

func (r *row) measureFloor(ctx context.Context, b *lab.Lab, s *server, uri string) (err error) {
	if r.floor, err = measureFloor(ctx, b, s, uri); err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Config{URI: uri, Timeout: callTimeout})
	if err != nil {
		return err
	}
	found, err := store.Inspect(ctx, db)
	version, _, _ := strings.Cut(found.Server, " (") // without the packager's
	r.name = version + s.extent
	return errors.Join(err, db.Close(context.WithoutCancel(ctx)))
}

// measureLosses stops replicas in order, and on another database kills them.
func (r *row) measureLosses(ctx context.Context, b *lab.Lab, s *server, uri string) (err error) {
	if r.handOver, err = replicas.GapsOn(ctx, b, uri, b.Times(25, 5)); err != nil {
		return err
	}
	if uri, err = s.fresh(ctx); err != nil {
		return err
	}
	r.failOver, err = replicas.FailoversOn(ctx, b, uri, shortLease, b.Times(6, 2))
	return err
}

// measureIdle looks at the processor time of the server, and at that of the members, which are in this process.
func (r *row) measureIdle(ctx context.Context, b *lab.Lab, s *server, uri string) error {
	return fleet.IdleOn(ctx, b, s.name, uri, idleMembers, idleKeys, func(ctx context.Context) error {
		m, err := s.meter()
		if err != nil {
			return err
		}
		if err := sleep.For(ctx, idleWindow); err != nil {
			return err
		}
		spent, err := m.spent()
		r.idle = spent.over(idleMembers * idleWindow.Seconds())
		return err
	})
}

func (r *row) measureColdStarts(ctx context.Context, b *lab.Lab, s *server) error {
	for range b.Full(3, 1) {
		uri, err := s.fresh(ctx)
		if err != nil {
			return err
		}
		if err := setUp(ctx, uri); err != nil {
			return err
		}
		took, err := fleet.ColdStartOn(ctx, b, s.name, uri)
		if err != nil {
			return err
		}
		r.coldStarts = append(r.coldStarts, took)
	}
	return nil
}

// setUp is what an operator does with a new database before the first start.
func setUp(ctx context.Context, uri string) error {
	d, err := store.Lookup(uri)
	if _, needs := d.(store.Initializer); !needs {
		return err
	}
	_, err = store.Init(ctx, store.Config{URI: uri})
	return err
}

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

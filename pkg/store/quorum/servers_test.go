package quorum_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	_ "github.com/shardctl/shardctl/pkg/store/etcd"
	_ "github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/quorum"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

// redises starts independent servers, each with its writes on the disk before they are acknowledged.
func redises(t *testing.T, n int) []*testservers.Server {
	t.Helper()
	all := make([]*testservers.Server, n)
	for i := range all {
		all[i] = testservers.Start(t, testservers.KindRedis)
	}
	return all
}

// quorumOf is a URI with an empty database of each server.
func quorumOf(servers []*testservers.Server) string {
	uris := make([]string, len(servers))
	for i, s := range servers {
		uris[i] = s.Database()
	}
	return "quorum:" + strings.Join(uris, ",")
}

// initURI sets a quorum up, if it was not yet.
func initURI(ctx context.Context, uri string) error {
	_, err := store.Init(ctx, driver.Config{URI: uri, Timeout: 20 * time.Second})
	return err
}

// setUpURI opens a quorum that was not set up.
func setUpURI(t *testing.T, uri string) *quorum.Store {
	t.Helper()
	if err := initURI(t.Context(), uri); err != nil {
		t.Fatal(err)
	}
	return openURI(t, uri)
}

func openURI(t *testing.T, uri string) *quorum.Store {
	t.Helper()
	s, err := store.Open(t.Context(), driver.Config{URI: uri, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
	return s.(*quorum.Store) //nolint:forcetypeassert // the scheme says so
}

func suite(t *testing.T, uri string) storetest.Database {
	t.Helper()
	if err := initURI(t.Context(), uri); err != nil {
		t.Fatal(err)
	}
	var servers []driver.Store
	return storetest.Database{
		CountsMore: true,
		Open: func(ctx context.Context) (driver.Store, error) {
			return store.Open(ctx, driver.Config{URI: uri, Timeout: 20 * time.Second})
		},
		Spoil: func(ctx context.Context, kind driver.Kind, id string) error {
			if servers == nil {
				servers = each(t, uri) //nolint:contextcheck // they outlive the call
			}
			for _, s := range servers {
				if err := spoil(ctx, s, kind, id); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// each opens the servers of a quorum that is set up, one by one.
func each(t *testing.T, uri string) (all []driver.Store) {
	t.Helper()
	for _, one := range quorum.Split(uri) {
		s, err := store.Open(
			t.Context(), driver.Config{URI: one, Cluster: "default.quorum", Existing: true, Timeout: 20 * time.Second},
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
		all = append(all, s)
	}
	return all
}

// editRedis has no server read a document: it is none of its store, and not only no record of the quorum.
func editRedis(uri string) func(context.Context, driver.Kind, string) error {
	return func(ctx context.Context, kind driver.Kind, id string) error {
		for _, one := range quorum.Split(uri) {
			o, err := redis.ParseURL(one)
			if err != nil {
				return err
			}
			c := redis.NewClient(o)
			err = c.HSet(ctx, "shardctl:{default.quorum}:"+kind.Info().Plural, id, "by hand").Err()
			if err := errors.Join(err, c.Close()); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestStoreOnThreeRedis(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	servers := redises(t, 3)
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		uri := quorumOf(servers)
		db := suite(t, uri)
		overwrite, edit := db.Spoil, editRedis(uri)
		db.Spoil = func(ctx context.Context, kind driver.Kind, id string) error {
			if err := overwrite(ctx, kind, id); err != nil { // so that no server is yet to write it
				return err
			}
			return edit(ctx, kind, id)
		}
		return db
	})
}

// Servers of several kinds make a quorum as well.
func TestStoreOnMixedServers(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "a real server")
	kinds := []testservers.Kind{testservers.KindRedis, testservers.KindEtcd, testservers.KindPostgres}
	for _, kind := range kinds {
		testservers.Shared(t, kind)
	}
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		var servers []*testservers.Server
		for _, kind := range kinds {
			servers = append(servers, testservers.Shared(t, kind))
		}
		return suite(t, quorumOf(servers))
	})
}

// Two of five are killed, others are frozen, and nothing that was acknowledged is lost; with three away nothing is
// acknowledged.
func TestFiveRedisWithTwoAway(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	servers := redises(t, 5)
	uri := quorumOf(servers)
	setUpURI(t, uri)
	f := storetest.Faults{CountsMore: true, Call: 2 * time.Second, Open: func(t *testing.T) driver.Store {
		t.Helper()
		return openURI(t, uri)
	}}
	killed := func(all ...*testservers.Server) {
		for _, s := range all {
			s.Kill()
		}
	}
	started := func(all ...*testservers.Server) {
		for _, s := range all {
			s.Start()
		}
	}
	two, others := servers[:2], servers[2:4]
	freeze := func() { others[0].Freeze(); others[1].Freeze() }
	thaw := func() { others[0].Thaw(); others[1].Thaw() }
	f.Run(t,
		storetest.Fault{Name: "two killed", Begin: func() { killed(two...) }, End: func() { started(two...) }},
		storetest.Fault{Name: "two others frozen", Begin: freeze, End: thaw},
		storetest.Fault{
			Name: "three away", Begin: func() { freeze(); killed(servers[4]) },
			End: func() { thaw(); started(servers[4]) }, Silent: true,
		},
	)
	s := openURI(t, uri)
	eventually(t, func() error { return allCount(s) })
}

// A Redis that may forget acknowledged writes is refused, as one of a quorum of otherwise good ones.
func TestForgetfulRedisIsRefused(t *testing.T) {
	good := testservers.Shared(t, testservers.KindRedis)
	for name, config := range map[string][]string{
		"appendfsync":      {"appendfsync everysec"},
		"appendonly":       {"appendonly no"},
		"maxmemory-policy": {"maxmemory-policy allkeys-lru"},
		"cannot be seen":   {"rename-command CONFIG \"\""},
	} {
		t.Run(name, func(t *testing.T) {
			bad := testservers.Start(t, testservers.KindRedis, config...)
			uri := quorumOf([]*testservers.Server{good, good, bad})
			s, err := store.Open(t.Context(), driver.Config{URI: uri, Timeout: 20 * time.Second})
			if err == nil {
				t.Fatalf("%v is opened", s)
			}
			if want := "it may forget what it acknowledged"; !errors.Is(err, driver.ErrInvalid) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%v, want one that says %q", err, want)
			}
		})
	}
}

// How many documents are there when a real server loses its disk.
var documents = flag.Int("quorum.documents", 500, "documents that a re-admission has to do with")

// A real server comes back with an empty disk: it does not count until it is re-admitted. Two do that at once, while
// others write. Nothing that was acknowledged is lost, whichever server is away afterwards.
func TestRedisThatLostItsDisk(t *testing.T) {
	servers := redises(t, 3)
	uri := quorumOf(servers)
	s := setUpURI(t, uri)
	var batch []driver.Change
	for i := range int64(*documents) {
		batch = append(batch, put(fmt.Sprintf("g/%06d", i), 0, 1, i))
		if len(batch) == driver.MaxBatch || i == int64(*documents)-1 {
			applyAll(t, s, batch)
			batch = nil
		}
	}
	servers[1].Kill()
	if err := os.RemoveAll(filepath.Join(servers[1].Server().Dir(), "appendonlydir")); err != nil {
		t.Fatal(err)
	}
	servers[1].Start()
	both := []*quorum.Store{openURI(t, uri), openURI(t, uri)}
	for _, other := range both {
		eventually(t, func() error {
			for _, p := range other.Problems() {
				if strings.Contains(p.Message, "re-admit it") {
					return nil
				}
			}
			return errors.New("no problem names the lost disk")
		})
	}
	ended := make(chan error, len(both))
	for _, other := range both {
		go func() { ended <- other.Readmit(t.Context(), 1, nil) }()
	}
	rev := int64(1)
	for left := len(both); left > 0; rev++ { // others write meanwhile
		if out := apply(t, s, put("g/000000", rev, rev+1, 1_000_000+rev)); out.Status != driver.Applied {
			t.Fatalf("revision %d: %+v", rev+1, out)
		}
		select {
		case err := <-ended: // each may end because of the other one
			left--
			if err != nil && !errors.Is(err, driver.ErrUnavailable) {
				t.Error(err)
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	eventually(t, func() error {
		err := both[0].Readmit(t.Context(), 1, nil)
		if err != nil && strings.Contains(err.Error(), "did not lose its identity") {
			return nil
		}
		return err
	})
	eventually(t, func() error { return allCount(s) })
	for away := range servers {
		servers[away].Kill()
		found := listAll(t, openURI(t, uri))
		if len(found) != *documents || found[0].Rev != rev {
			t.Fatalf("without server %d: %d documents, want %d, the first at revision %d", away+1, len(found),
				*documents, rev)
		}
		servers[away].Start()
		eventually(t, func() error { return allCount(s) })
	}
	t.Logf("%d writes to one document meanwhile", rev-1)
}

// listAll lists all locks, in pages.
func listAll(t *testing.T, s driver.Store) (all []driver.Doc) {
	t.Helper()
	for q := (driver.Query{NoBody: true, Limit: 1000}); ; {
		page, err := s.List(t.Context(), driver.KindLock, q)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, page.Docs...); len(page.Docs) < q.Limit {
			return all
		}
		q = q.After(all[len(all)-1].ID)
	}
}

// applyAll applies changes, and repeats those of unknown outcome.
func applyAll(t *testing.T, s driver.Store, changes []driver.Change) {
	t.Helper()
	for len(changes) > 0 {
		outs, err := s.Apply(t.Context(), changes...)
		if err != nil {
			t.Fatal(err)
		}
		var left []driver.Change
		for i, out := range outs {
			switch out.Status {
			case driver.Applied:
			case driver.Unknown:
				left = append(left, changes[i])
			default:
				t.Fatalf("%s: %+v", changes[i].Doc.ID, out)
			}
		}
		changes = left
	}
}

// A server that is started again with settings under which it may forget does not count any more.
func TestServersThatAreStartedWithOtherSettings(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	for kind, weaken := range map[testservers.Kind]func(*testing.T, *testservers.Server) error{
		testservers.KindRedis: func(t *testing.T, s *testservers.Server) error {
			t.Helper()
			c := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2})
			defer func() { _ = c.Close() }()
			set := c.Do(t.Context(), "CONFIG", "SET", "appendfsync", "everysec").Err()
			return errors.Join(set, c.Do(t.Context(), "CONFIG", "REWRITE").Err())
		},
		testservers.KindPostgres: func(t *testing.T, s *testservers.Server) error {
			t.Helper()
			return testservers.PostgresExec(t.Context(), s, "ALTER SYSTEM SET fsync = off")
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			good, one := testservers.Shared(t, testservers.KindRedis), testservers.Start(t, kind)
			s := setUpURI(t, quorumOf([]*testservers.Server{good, one, good}))
			eventually(t, func() error { return allCount(s) })
			if err := weaken(t, one); err != nil {
				t.Fatal(err)
			}
			one.Kill()
			one.Start()
			s.Fail() // stores of SQL repeat what fails
			rev := int64(0)
			eventually(t, func() error {
				if out := apply(t, s, put("g/a", rev, rev+1, rev)); out.Status == driver.Applied {
					rev++
				}
				for _, p := range s.Problems() {
					if strings.Contains(p.Message, "it may forget what it acknowledged") {
						return nil
					}
				}
				return fmt.Errorf("problems: %v", s.Problems())
			})
			wantRev(t, s, "g/a", rev)
		})
	}
}

// The floors of etcd are counters of their own. All of them have to be raised: any majority may answer later.
func TestFloorOfAllServersIsRaised(t *testing.T) {
	server := testservers.Shared(t, testservers.KindEtcd)
	link := server.Link()
	uri := "quorum:" + strings.Join(
		[]string{server.Database(), server.Database(), server.Via(link, server.Database())}, ",",
	)
	s, other := setUpURI(t, uri), openURI(t, uri)
	floor := func(s driver.Store) int64 {
		t.Helper()
		reply, err := s.List(t.Context(), driver.KindLock, driver.Query{})
		if err != nil {
			t.Fatal(err)
		}
		return reply.Floor
	}
	raised := floor(s) + 1_000_000
	if err := driver.RaiseFloor(t.Context(), s, raised); err != nil {
		t.Fatal(err)
	}
	for _, each := range []driver.Store{s, other, openURI(t, uri)} {
		if got := floor(each); got < raised {
			t.Errorf("floor %d, want %d at least", got, raised)
		}
	}
	link.Block()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := driver.RaiseFloor(ctx, s, 2*raised); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("with a server away: %v", err)
	}
	link.Unblock()
	if err := driver.RaiseFloor(t.Context(), s, driver.MaxMark+1); !errors.Is(err, driver.ErrMalformed) {
		t.Errorf("above the largest mark: %v", err)
	}
}

package zookeeper_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/pkg/store/zookeeper"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestMain(m *testing.M) {
	code := testprocess.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}

func TestStore(t *testing.T) {
	server := testservers.Shared(t, testservers.KindZooKeeper)
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		return database(t, server.Database())
	})
}

// database is what the suite works on.
func database(t *testing.T, uri string) storetest.Database {
	t.Helper()
	var warm, spoiler driver.Store
	var byHand *zk.Conn
	return storetest.Database{
		Quiet: true, Neighbour: storetest.Neighbour(uri),
		Open: func(ctx context.Context) (driver.Store, error) {
			s, err := zookeeper.Open(ctx, zookeeper.Options{URI: uri, Timeout: patient})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		ShiftSchema: func(_ context.Context, by int) error { return shiftSchema(t, uri, by) },
		Forget:      func(_ context.Context, kind driver.Kind) error { return forget(t, uri, kind) },
		Spoil: func(_ context.Context, kind driver.Kind, id string) error {
			if spoiler == nil {
				//nolint:contextcheck // it outlives the call
				spoiler = storetest.Open(t, driver.Config{URI: uri})
				byHand, _ = raw(t, uri)
			}
			_, err := byHand.Set(zookeeper.Document(spoiler, kind, id), []byte(`{"rev":"by hand"}`), -1)
			return err
		},
		Examined: func(ctx context.Context, kind driver.Kind, q driver.Query) (int64, error) {
			if warm == nil {
				warm = storetest.Open(t, driver.Config{URI: uri}) //nolint:contextcheck // it outlives the call
			}
			// The first list of a kind reads all of it, once in a process's life. What counts is every later one.
			if _, err := warm.List(ctx, kind, driver.Query{CountOnly: true}); err != nil {
				return 0, err
			}
			before := zookeeper.Looked(warm)
			_, err := warm.List(ctx, kind, q)
			return zookeeper.Looked(warm) - before, err
		},
	}
}

// patient is for calls on a machine that is busy.
const patient = 20 * time.Second

// raw is a client of its own, and the path that a URI names.
func raw(t *testing.T, uri string) (conn *zk.Conn, chroot string) {
	t.Helper()
	hosts, chroot, _ := strings.Cut(strings.TrimPrefix(uri, "zk://"), "/")
	conn, events, err := zk.Connect(strings.Split(hosts, ","), 4*time.Second, zk.WithLogInfo(false))
	must(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // until its loops have ended
		}
	})
	return conn, "/" + chroot
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func shiftSchema(t *testing.T, uri string, by int) error {
	t.Helper()
	conn, chroot := raw(t, uri)
	path := chroot + "/shardctl/default/schema"
	data, stat, err := conn.Get(path)
	if err != nil {
		return err
	}
	version, err := strconv.Atoi(string(data))
	if err != nil {
		return err
	}
	_, err = conn.Set(path, []byte(strconv.Itoa(version+by)), stat.Version)
	return err
}

// forget deletes the directories and the signals of a kind without documents.
func forget(t *testing.T, uri string, kind driver.Kind) error {
	t.Helper()
	conn, chroot := raw(t, uri)
	base, plural := chroot+"/shardctl/default", kind.Info().Plural
	signals, _, err := conn.Children(base + "/bells")
	if err != nil {
		return err
	}
	for _, signal := range signals {
		if strings.HasPrefix(signal, plural+"-") {
			err = errors.Join(err, conn.Delete(base+"/bells/"+signal, -1))
		}
	}
	for _, of := range []string{"documents", "index"} {
		buckets, _, failed := conn.Children(base + "/" + of + "/" + plural)
		err = errors.Join(err, failed)
		for _, bucket := range buckets {
			err = errors.Join(err, conn.Delete(base+"/"+of+"/"+plural+"/"+bucket, -1))
		}
		err = errors.Join(err, conn.Delete(base+"/"+of+"/"+plural, -1))
	}
	return err
}

// put is a change of a document with a writer ID of its own.
func put(d driver.Doc, ifRev int64) driver.Change {
	d.Rev = ifRev + 1
	d.WriterID = driver.WriterID{Session: "writer", Seq: time.Now().UnixNano()}
	return driver.Change{Op: driver.Put, IfRev: ifRev, Doc: d}
}

func lock(id string) driver.Doc { return driver.Doc{Kind: driver.KindLock, ID: id, Group: "g"} }

// apply performs one change and checks how it ends.
func apply(ctx context.Context, t *testing.T, s driver.Store, want driver.Status, c driver.Change) {
	t.Helper()
	outs, err := s.Apply(ctx, c)
	must(t, err)
	if outs[0].Status != want {
		t.Fatalf("%s %s: status %d, found %+v, error %v; want status %d", c.Doc.Kind, c.Doc.ID, outs[0].Status,
			outs[0].Doc, outs[0].Err, want)
	}
}

// readOne reads a document; nil: absent.
func readOne(t *testing.T, s driver.Store, kind driver.Kind, id string) *driver.Doc {
	t.Helper()
	r, err := s.Read(t.Context(), kind, id)
	must(t, err)
	if len(r.Docs) == 0 {
		return nil
	}
	return &r.Docs[0]
}

package etcd_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap" //nolint:depguard // etcd's client takes its logger in this form alone

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/etcd"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestMain(m *testing.M) {
	code := testprocess.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patient is a time-out for a machine that is busy with other tests.
const patient = 20 * time.Second

func database(t *testing.T, uri string) storetest.Database {
	t.Helper()
	options := etcd.Options{URI: uri, Timeout: patient}
	var byHand *clientv3.Client
	return storetest.Database{
		Quiet: true, Neighbour: storetest.Neighbour(uri),
		Open: func(ctx context.Context) (driver.Store, error) {
			s, err := etcd.Open(ctx, options)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		ShiftSchema: func(ctx context.Context, by int) error {
			key := prefixOf(uri) + "/default/.schema"
			client := raw(t, uri)
			found, err := client.Get(ctx, key)
			if err != nil {
				return err
			}
			version, err := strconv.Atoi(string(found.Kvs[0].Value))
			if err != nil {
				return err
			}
			_, err = client.Put(ctx, key, strconv.Itoa(version+by))
			return err
		},
		Spoil: func(ctx context.Context, kind driver.Kind, id string) error {
			if byHand == nil {
				byHand = raw(t, uri)
			}
			_, err := byHand.Put(ctx, prefixOf(uri)+"/default/"+string(kind)+"/"+id, `{"rev":"by hand"}`)
			return err
		},
		Examined: func(ctx context.Context, kind driver.Kind, q driver.Query) (int64, error) {
			var keys atomic.Int64
			s, err := etcd.OpenCounting(ctx, options, func(n int) { keys.Add(int64(n)) })
			if err != nil {
				return 0, err
			}
			defer func() { _ = s.Close(ctx) }()
			keys.Store(0)
			_, err = s.List(ctx, kind, q)
			return keys.Load(), err
		},
	}
}

// prefixOf is the prefix that a URI of a test names.
func prefixOf(uri string) string { return uri[strings.LastIndexByte(uri, '/')+1:] }

// raw reaches around the store, as an operator with etcdctl does.
func raw(t *testing.T, uri string) *clientv3.Client {
	t.Helper()
	hosts, _, _ := strings.Cut(strings.TrimPrefix(uri, "etcd://"), "/")
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(hosts, ","), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// create is a change that creates a lock.
func create(id string) driver.Change {
	return driver.Change{Doc: driver.Doc{
		Kind: driver.KindLock, ID: id, Group: "g", Rev: 1, WriterID: driver.WriterID{Session: "s", Seq: 1},
	}}
}

// apply performs one change.
func apply(ctx context.Context, t *testing.T, s driver.Store, c driver.Change) driver.Outcome {
	t.Helper()
	outs, err := s.Apply(ctx, c)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return outs[0]
}

//go:build unix

package storecopy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/storecheck"
	"github.com/shardctl/shardctl/internal/storecopy"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	_ "github.com/shardctl/shardctl/pkg/store/etcd"
	_ "github.com/shardctl/shardctl/pkg/store/mongo"
	_ "github.com/shardctl/shardctl/pkg/store/mysql"
	_ "github.com/shardctl/shardctl/pkg/store/postgres"
	_ "github.com/shardctl/shardctl/pkg/store/quorum"
	_ "github.com/shardctl/shardctl/pkg/store/redis"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
	_ "github.com/shardctl/shardctl/pkg/store/zookeeper"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

func open(t *testing.T, uri, cluster string) storecopy.Side {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{URI: uri, Cluster: cluster, Timeout: limit / 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.WithoutCancel(t.Context())) })
	return side(uri+" "+cluster, db)
}

// thereAndBack moves from MongoDB to another store and back, with more documents than a page holds, and then to where
// it was at first. Tokens rise on all ways.
func thereAndBack(t *testing.T, name, other string, many int) {
	t.Helper()
	uri := testmongo.Shared(t)
	first, there, back := open(t, uri, name), open(t, other, "moved"), open(t, uri, name+"-back")
	for i := range many {
		put(t, first, driver.Doc{
			Kind: driver.KindValue, ID: fmt.Sprintf("g0/v%04d", i), Group: "g0", Rev: int64(i + 1), Count: 7,
			WriterID: driver.WriterID{Session: "w", Seq: int64(i + 1)}, Body: fmt.Appendf(nil, "%c\xff\x00 %d", 0, i),
		})
	}
	all := keys(10)
	tokens := claim(t, first, all...)
	for i, step := range []struct{ from, to storecopy.Side }{{first, there}, {there, back}, {back, first}} {
		if i == 2 {
			empty(t, first) // as an operator does: the mark that it was left stays
		}
		report := move(t, step.from, step.to)
		if report.Documents["locks"] != len(all) || report.Documents["values"] != many ||
			report.Documents["groups"] < 2 {
			t.Errorf("copied %v, want %d locks, %d values and the counters", report.Documents, len(all), many)
		}
		next := claim(t, step.to, all...)
		risen(t, tokens, next)
		tokens = next
	}
}

// empty removes all documents but the mark of a move.
func empty(t *testing.T, db store.Store) {
	t.Helper()
	for _, kind := range driver.Kinds() {
		found, err := db.List(t.Context(), kind, driver.Query{NoBody: true})
		if err != nil {
			t.Fatal(err)
		}
		var changes []driver.Change
		for i, d := range found.Docs {
			if d.ID != record.MoveID {
				d.WriterID = driver.WriterID{Session: "operator-" + string(kind), Seq: int64(i + 1)}
				changes = append(changes, driver.Change{Op: driver.Delete, IfRev: d.Rev, Doc: d})
			}
		}
		outs, err := db.Apply(t.Context(), changes...)
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range outs {
			if out.Status != driver.Applied {
				t.Fatal(out)
			}
		}
	}
}

func TestMongoToSQLiteAndBack(t *testing.T) {
	thereAndBack(t, "sqlite", "sqlite:"+filepath.Join(t.TempDir(), "moved.db"), 1234)
}

// Other servers, each of its own. What a check says of it is shown, and it writes and reads.
func TestMongoToServersAndBack(t *testing.T) {
	for _, kind := range []testservers.Kind{
		testservers.KindPostgres, testservers.KindMariaDB, testservers.KindEtcd, testservers.KindZooKeeper,
		testservers.KindRedis,
	} {
		t.Run(string(kind), func(t *testing.T) {
			uri := testservers.Start(t, kind).Database()
			found, err := storecheck.Check(
				t.Context(), storecheck.Options{Config: store.Config{URI: uri, Timeout: limit / 3}},
			)
			whole := kind != testservers.KindZooKeeper // one server is no ensemble
			if err != nil || found.Server == "" || found.Write.Samples != storecheck.Samples || found.Holds != whole {
				t.Errorf("check: %+v, %v", found, err)
			}
			t.Logf("%s: read %.2f ms, write %.2f ms, notification %.2f ms (p50), polled %t, connections %v, problems %v",
				found.Server, found.Read.P50Seconds*1000, found.Write.P50Seconds*1000,
				found.Notification.P50Seconds*1000, found.Polled, *found.Connections, found.Problems)
			thereAndBack(t, string(kind), uri, 450)
		})
	}
}

// A quorum, of servers whose floors are counters of their own: all of them are raised.
func TestMongoToQuorumAndBack(t *testing.T) {
	server := testservers.Start(t, testservers.KindEtcd)
	uris := []string{server.Database(), server.Database(), server.Database()}
	uri := "quorum:" + strings.Join(uris, ",")
	if _, err := store.Init(t.Context(), store.Config{URI: uri, Cluster: "moved"}); err != nil {
		t.Fatal(err)
	}
	thereAndBack(t, "quorum", uri, 450)
}

// A server that may forget what it acknowledged does not hold what is promised.
func TestCheckOfForgetfulServer(t *testing.T) {
	uri := testservers.Start(t, testservers.KindPostgres, "fsync = off").Database()
	found, err := storecheck.Check(
		t.Context(), storecheck.Options{Config: store.Config{URI: uri, Timeout: limit / 3}},
	)
	if err != nil || found.Holds || len(found.Problems) == 0 || !found.Problems[0].Promise {
		t.Errorf("check: %+v, %v; want that it does not hold", found, err)
	}
}

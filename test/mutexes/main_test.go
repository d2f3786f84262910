//go:build unix

package mutexes

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	_ "github.com/shardctl/shardctl/pkg/store/etcd"
	_ "github.com/shardctl/shardctl/pkg/store/mongo"
	_ "github.com/shardctl/shardctl/pkg/store/mysql"
	_ "github.com/shardctl/shardctl/pkg/store/postgres"
	_ "github.com/shardctl/shardctl/pkg/store/redis"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
	_ "github.com/shardctl/shardctl/pkg/store/zookeeper"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestMain(m *testing.M) {
	if uri := os.Getenv(childEnv); uri != "" {
		if err := child(uri, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(testprocess.Main(m))
}

func TestSQLite(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	suite(t, func(t *testing.T) string {
		t.Helper()
		return "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
	})
}

func TestMongoDB(t *testing.T) {
	suite(t, func(t *testing.T) string {
		t.Helper()
		return testmongo.Shared(t)
	})
}

func onServer(t *testing.T, kind testservers.Kind) {
	t.Helper()
	suites.NeedWhole(t, suites.Stores, "a real server")
	server := testservers.Start(t, kind)
	suite(t, func(*testing.T) string { return server.Database() })
}

func TestPostgreSQL(t *testing.T) { onServer(t, testservers.KindPostgres) }
func TestMariaDB(t *testing.T)    { onServer(t, testservers.KindMariaDB) }
func TestEtcd(t *testing.T)       { onServer(t, testservers.KindEtcd) }
func TestZooKeeper(t *testing.T)  { onServer(t, testservers.KindZooKeeper) }
func TestRedis(t *testing.T)      { onServer(t, testservers.KindRedis) }

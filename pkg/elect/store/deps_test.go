package store_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Who embeds the packages with one store compiles the driver of that one alone.
func TestDriversAreCompiledByTheirStoresAlone(t *testing.T) {
	drivers := []string{
		"go.mongodb.org/mongo-driver",
		"go.etcd.io/etcd/client",
		"modernc.org/sqlite",
		"github.com/go-sql-driver/mysql",
		"github.com/go-zookeeper/zk",
		"github.com/redis/go-redis",
	}
	const pkg = "github.com/shardctl/shardctl/pkg/"
	for _, tt := range []struct{ packages, drivers string }{
		{"elect elect/store elect/store/storetest elect/memstore elect/sqlstore balancer tasks", ""},
		{"elect/mongostore", "go.mongodb.org/mongo-driver"},
		{"elect/etcdstore", "go.etcd.io/etcd/client"},
		{"elect/redisstore", "github.com/redis/go-redis"},
		{"elect/sqlstore/mysql", "github.com/go-sql-driver/mysql"},
		{"elect/sqlstore/sqlite", "modernc.org/sqlite"},
		{"elect/zkstore", "github.com/go-zookeeper/zk"},
	} {
		args := []string{"list", "-deps"}
		for name := range strings.FieldsSeq(tt.packages) {
			args = append(args, pkg+name)
		}
		out, err := exec.CommandContext(t.Context(), "go", args...).Output()
		if err != nil {
			t.Fatalf("go %s: %v", strings.Join(args, " "), err)
		}
		for _, driver := range drivers {
			compiled := strings.Contains("\n"+string(out), "\n"+driver)
			if want := driver == tt.drivers; compiled != want {
				t.Errorf("%s: %s compiled: %t, want %t", tt.packages, driver, compiled, want)
			}
		}
	}
}

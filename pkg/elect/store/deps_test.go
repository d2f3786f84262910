package store_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Each store of the program has a line in the table, so that no driver is left out of it.
func TestDriversOfTheProgramAreInTheTable(t *testing.T) {
	table, err := os.ReadFile("deps_test.go")
	if err != nil {
		t.Fatal(err)
	}
	imports, err := os.ReadFile("../../../cmd/shardctl/stores.go")
	if err != nil {
		t.Fatal(err)
	}
	found := imported.FindAllStringSubmatch(string(imports), -1)
	if len(found) < 2 {
		t.Fatalf("stores of the program: %v", found)
	}
	for _, m := range found {
		if !regexp.MustCompile(`\{"(elect )?` + m[1] + `", "[^"]+"\}`).Match(table) {
			t.Errorf("%s has no line with its driver", m[1])
		}
	}
}

var imported = regexp.MustCompile(`"github.com/shardctl/shardctl/pkg/(elect/[a-z/]+)"`)

// Who embeds the packages with one store compiles the driver of that one alone.
func TestDriversAreCompiledByTheirStoresAlone(t *testing.T) {
	drivers := []string{
		"go.mongodb.org/mongo-driver",
		"go.etcd.io/etcd/client",
		"modernc.org/sqlite",
		"github.com/go-sql-driver/mysql",
		"github.com/go-zookeeper/zk",
		"github.com/jackc/pgx",
		"github.com/redis/go-redis",
	}
	const pkg = "github.com/shardctl/shardctl/pkg/"
	for _, tt := range []struct{ packages, drivers string }{
		{"elect elect/store elect/store/storetest elect/memstore elect/sqlstore balancer tasks", ""},
		{"elect/quorumstore", "none: those of its servers are imported beside it"},
		{"elect elect/mongostore", "go.mongodb.org/mongo-driver"},
		{"elect/etcdstore", "go.etcd.io/etcd/client"},
		{"elect/redisstore", "github.com/redis/go-redis"},
		{"elect/sqlstore/mysql", "github.com/go-sql-driver/mysql"},
		{"elect/sqlstore/postgres", "github.com/jackc/pgx"},
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

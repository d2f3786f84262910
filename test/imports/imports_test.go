// Package imports_test says which foreign modules the packages of this one lead to. Who embeds one of them compiles no
// more.
package imports_test

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/shardctl/shardctl/"

// drivers are those of databases. Most packages lead to none.
var drivers = []string{
	"go.mongodb.org/mongo-driver",
	"go.etcd.io/etcd/client",
	"modernc.org/sqlite",
	"github.com/go-sql-driver/mysql",
	"github.com/go-zookeeper/zk",
	"github.com/jackc/pgx",
	"github.com/redis/go-redis",
}

func TestDrivers(t *testing.T) {
	for _, tt := range []struct{ packages, driver string }{
		{"elect store store/driver store/storetest store/memory store/internal/sqlstore balancer tasks", ""},
		{"store/quorum", "none: those of its servers are imported beside it"},
		{"elect store store/mongo", "go.mongodb.org/mongo-driver"},
		{"store/etcd", "go.etcd.io/etcd/client"},
		{"store/redis", "github.com/redis/go-redis"},
		{"store/mysql", "github.com/go-sql-driver/mysql"},
		{"store/postgres", "github.com/jackc/pgx"},
		{"store/sqlite", "modernc.org/sqlite"},
		{"store/zookeeper", "github.com/go-zookeeper/zk"},
		{"fence fence/fencesql fence/fencehttp", ""},
		{"fence/fencemongo", "go.mongodb.org/mongo-driver"},
		{"fence/fenceredis", "github.com/redis/go-redis"},
		{"idempotency idempotency/idempotencyhttp idempotency/idempotencytest idempotency/idempotencystore", ""},
		{"idempotency/idempotencymongo", "go.mongodb.org/mongo-driver"},
	} {
		found := needed(t, tt.packages)
		for _, driver := range drivers {
			if got, want := leadsTo(found, driver), driver == tt.driver; got != want {
				t.Errorf("%s: leads to %s: %t, want %t", tt.packages, driver, got, want)
			}
		}
	}
}

// Each store of the program has a line in the table above, so that no driver is left out of it.
func TestStoresOfTheProgramAreInTheTable(t *testing.T) {
	table, err := os.ReadFile("imports_test.go")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("../../internal/program/store.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`"`+module+`pkg/(store/[a-z/]+)"`).FindAllStringSubmatch(string(program), -1)
	if len(found) < 2 {
		t.Fatalf("stores of the program: %v", found)
	}
	for _, m := range found {
		if m[1] == "store/driver" { // the contract, not a store
			continue
		}
		if !regexp.MustCompile(`\{"(elect store )?` + m[1] + `", "[^"]+"\}`).Match(table) {
			t.Errorf("%s has no line with its driver", m[1])
		}
	}
}

// Who fences alone compiles nothing of the lock.
func TestFencesLeadToNoLock(t *testing.T) {
	if leadsTo(needed(t, "fence fence/fencesql fence/fencehttp fence/fencemongo fence/fenceredis"),
		module+"pkg/elect") {
		t.Error("they lead to pkg/elect")
	}
}

// What makes snapshots leads to nothing that runs or serves: commands show a store with it alone.
func TestTheViewLeadsToNoReplicaAndNoServer(t *testing.T) {
	found := needed(t, "../internal/view")
	for _, runs := range []string{"replica", "operate", "guard", "admin", "status", "web", "access"} {
		if leadsTo(found, module+"internal/"+runs) {
			t.Errorf("it leads to internal/%s", runs)
		}
	}
	imports, err := exec.CommandContext(
		t.Context(), "go", "list", "-f", `{{join .Imports "\n"}}`, module+"internal/view", module+"internal/snapshot",
	).Output()
	if err != nil || slices.Contains(strings.Fields(string(imports)), "net/http") {
		t.Errorf("it imports net/http: %v\n%s", err, imports)
	}
}

// frontDoor is how many packages outside the standard library pkg/shard leads to at most, itself included.
const frontDoor = 40

// A service that embeds pkg/shard compiles no configuration file, no page and no Prometheus with it. These come by
// importing pkg/shard/shardhttp.
func TestTheFrontDoorIsLight(t *testing.T) {
	heavy := []string{
		"go.yaml.in/yaml", "github.com/santhosh-tekuri/jsonschema", "github.com/fsnotify/fsnotify",
		"github.com/prometheus", "google.golang.org", "golang.org/x/text", "github.com/klauspost/compress",
		module + "internal/access", module + "internal/application", module + "internal/config",
		module + "internal/discover/listers", module + "internal/guard", module + "internal/kind",
		module + "internal/metrics", module + "internal/route", module + "internal/runners", module + "internal/status",
		module + "internal/subscribe", module + "internal/web", module + "pkg/client",
	}
	front, mounted := needed(t, "shard"), needed(t, "shard/shardhttp")
	for _, prefix := range append(heavy, drivers...) {
		if leadsTo(front, prefix) {
			t.Errorf("pkg/shard leads to %s", prefix)
		}
	}
	if found := outside(front); len(found) > frontDoor {
		t.Errorf("pkg/shard leads to %d packages, at most %d are wanted: %q", len(found), frontDoor, found)
	}
	if !leadsTo(mounted, "github.com/prometheus") || !leadsTo(mounted, module+"internal/status") {
		t.Error("pkg/shard/shardhttp leads to neither page nor metrics: the prefixes above may have no meaning")
	}
}

// The client needs the standard library and package api, and nothing else.
func TestClientNeedsTheStandardLibraryAlone(t *testing.T) {
	got := outside(needed(t, "client"))
	if !slices.Equal(got, []string{module + "pkg/api", module + "pkg/client"}) {
		t.Errorf("it needs %v", got)
	}
}

// The program has no part of the resolver of gRPC, and the resolver needs the client alone.
func TestTheResolverOfGRPCStandsAlone(t *testing.T) {
	resolver := module + "pkg/client/grpcroute"
	if slices.Contains(needed(t, "../cmd/shardctl"), resolver) {
		t.Error("cmd/shardctl leads to it")
	}
	got := slices.DeleteFunc(needed(t, "client/grpcroute"), func(pkg string) bool {
		return !strings.HasPrefix(pkg, module)
	})
	if !slices.Equal(got, []string{module + "pkg/api", module + "pkg/client", resolver}) {
		t.Errorf("it needs %v of this module", got)
	}
}

// listed is each package of this module, with all that it leads to: to list them once takes as long as to list one.
var listed = sync.OnceValues(func() (map[string][]string, error) {
	all := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, module+"...")
	all.Stderr = os.Stderr
	out, err := all.Output()
	needs := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		needs[words[0]] = words
	}
	return needs, err
})

// needed is what packages below pkg lead to, themselves included.
func needed(t *testing.T, packages string) []string {
	t.Helper()
	all, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for name := range strings.FieldsSeq(packages) {
		needs := all[path.Join(module, "pkg", name)]
		if needs == nil {
			t.Fatalf("there is no package pkg/%s", name)
		}
		found = append(found, needs...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// outside leaves out the standard library.
func outside(found []string) []string {
	return slices.DeleteFunc(slices.Clone(found), func(pkg string) bool {
		first, _, _ := strings.Cut(pkg, "/")
		return !strings.Contains(first, ".")
	})
}

func leadsTo(found []string, prefix string) bool {
	return slices.ContainsFunc(found, func(pkg string) bool { return strings.HasPrefix(pkg, prefix) })
}

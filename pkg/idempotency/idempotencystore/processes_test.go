package idempotencystore_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencystore"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencytest"
	"github.com/shardctl/shardctl/pkg/store"
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

var whole = flag.Bool("idempotency.whole", false, "send 10,000 requests")

// effectsEnv names the file that effects are written to.
const effectsEnv = "IDEMPOTENCYSTORE_EFFECTS"

func TestMain(m *testing.M) {
	idempotencytest.Child(openClient)
	os.Exit(testprocess.Main(m))
}

// openClient is one process of TestProcessesThatAreKilled. It is killed or exits: nothing is closed.
func openClient(ctx context.Context, uri string) (idempotencytest.Client, error) {
	db, err := store.Open(ctx, store.Config{URI: uri})
	if err != nil {
		return idempotencytest.Client{}, err
	}
	e, err := elect.Start(ctx, elect.Config{
		Store: db, LeaseDuration: 4 * time.Second, Member: elect.Member{Instance: fmt.Sprint("process-", os.Getpid())},
	})
	if err != nil {
		return idempotencytest.Client{}, err
	}
	file, err := os.OpenFile(os.Getenv(effectsEnv), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return idempotencytest.Client{}, err
	}
	g, err := idempotency.New(idempotency.Config{Records: idempotencystore.New(e, db), Wait: true})
	return idempotencytest.Client{
		Guard: g,
		// On a busy machine a lease may be lost: then nothing was done.
		Again: func(err error) bool { return errors.Is(err, elect.ErrLeaseLost) },
		Effect: func(_ context.Context, id, reply string) error {
			_, err := fmt.Fprintln(file, id, reply) // one write: lines of two processes never mix
			return err
		},
	}, err
}

// Each request is sent five times at once by ten processes, some of which are killed half way. Effects are outside of
// the store: none happens twice, and who gets no reply gets an error that says so.
func TestProcessesThatAreKilled(t *testing.T) {
	suites.Need(t, suites.Processes, "many real processes")
	server := func(k testservers.Kind) func(*testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			return testservers.Shared(t, k).Database()
		}
	}
	for name, open := range map[string]func(*testing.T) string{
		"SQLite": func(t *testing.T) string { t.Helper(); return "sqlite:" + filepath.Join(t.TempDir(), "store.db") },
		"MongoDB": func(t *testing.T) string {
			t.Helper()
			return testmongo.WithDatabase(testmongo.New(t, testmongo.Options{Nodes: 1}).URI(), "killed")
		},
		"PostgreSQL": server(testservers.KindPostgres),
		"MariaDB":    server(testservers.KindMariaDB),
		"Redis":      server(testservers.KindRedis),
		"etcd":       server(testservers.KindEtcd),
		"ZooKeeper":  server(testservers.KindZooKeeper),
	} {
		t.Run(name, func(t *testing.T) { play(t, open(t)) })
	}
}

func play(t *testing.T, uri string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "effects")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(effectsEnv, path)
	count := 200
	if *whole {
		count = 10_000
	}
	said, killed := idempotencytest.Processes(t, uri, count)
	failed := idempotencytest.AtMostOnce(t, count, said, effects(t, path))
	if killed == 0 || failed == 0 {
		t.Errorf("%d processes were killed half way, %d requests ended so, want some", killed, failed)
	}
	t.Logf("%d requests were interrupted", failed)
}

func effects(t *testing.T, path string) map[string][]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	all := make(map[string][]string)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		id, reply, _ := strings.Cut(lines.Text(), " ")
		all[id] = append(all[id], reply)
	}
	return all
}

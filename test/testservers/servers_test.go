//go:build unix

package testservers_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

// Every kind comes back on its data and its port, and makes one database after the other.
func TestServersKeepTheirPortAndMakeDatabases(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	for _, kind := range testservers.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			s := testservers.Start(t, kind)
			addr, first := s.Addr, s.Database()
			if !strings.Contains(first, addr) {
				t.Errorf("%s does not name %s", first, addr)
			}
			s.Kill()
			s.Start()
			if second := s.Database(); second == first {
				t.Errorf("%s is made twice", second)
			}
			s.Freeze()
			brief, end := context.WithTimeout(t.Context(), time.Second)
			if err := s.Server().Software().Ready(brief, s.Server().Site()); err == nil {
				t.Error("a frozen server answers")
			}
			end()
			s.Thaw()
			s.Stop()
			s.Start()
			link := s.Link()
			if via := s.Via(link, s.Database()); !strings.Contains(via, link.Addr) || strings.Contains(via, addr) {
				t.Errorf("%s does not go through %s", via, link.Addr)
			}
		})
	}
}

func TestSharedServerIsOne(t *testing.T) {
	first, second := testservers.Shared(t, testservers.KindRedis), testservers.Shared(t, testservers.KindRedis)
	if first.Addr != second.Addr {
		t.Errorf("two servers, %s and %s", first.Addr, second.Addr)
	}
}

func TestOpenSaysWhyAServerDoesNotStart(t *testing.T) {
	testservers.Need(t, testservers.KindPostgres)
	_, err := testservers.Open(t.Context(), testservers.KindPostgres, t.TempDir(), testprocess.Options{
		Config: []string{"no_such_setting = 1"},
	})
	if err == nil {
		t.Fatal("it started")
	}
	for _, part := range []string{"start postgres at 127.0.0.1:", "the server exited", "no_such_setting"} {
		if !bytes.Contains([]byte(err.Error()), []byte(part)) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
}

// Databases made before and after show which server takes writes.
func TestStandbyTakesOverFromItsPrimary(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	pair := testservers.StartPostgresPair(t)
	pair.Primary.Database()
	pair.Primary.Kill()
	pair.Promote()
	pair.Standby.Database()
	pair.Standby.Kill()
	pair.Standby.Start()
	pair.Standby.Database()
}

// A machine has a limit of such segments, and a server that cannot have one does not start.
func TestKilledPostgresLeavesNoSharedMemory(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	const segments = "/proc/sysvipc/shm"
	if _, err := os.Stat(segments); err != nil {
		t.Skip("only Linux shows segments: ", err)
	}
	segment := ""
	has := func() bool {
		all, err := os.ReadFile(segments)
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`(?m)^\s*\d+\s+` + segment + `\s`).Match(all)
	}
	t.Run("killed", func(t *testing.T) {
		s := testservers.Start(t, testservers.KindPostgres)
		pidFile, err := os.ReadFile(s.Server().Site().Path("data/postmaster.pid"))
		if err != nil {
			t.Fatal(err)
		}
		segment = strings.Fields(strings.Split(string(pidFile), "\n")[6])[1]
		if !has() {
			t.Fatalf("no segment %s while it runs", segment)
		}
	})
	if segment != "" && has() {
		t.Errorf("segment %s is still there", segment)
	}
}

func TestPgBouncerServesWhatIsBehindIt(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	server := testservers.Start(t, testservers.KindPostgres)
	pooler := testservers.StartPgBouncer(t, server.Addr)
	uri := strings.ReplaceAll(server.Database(), server.Addr, pooler.Addr)
	for range 2 {
		out, err := exec.CommandContext(t.Context(), "psql", "-XAtc", "SELECT inet_server_port()", uri).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || !strings.HasSuffix(server.Addr, ":"+got) {
			t.Errorf("behind the pooler is %q, %v; want %s", got, err, server.Addr)
		}
		server.Kill()
		server.Start()
	}
}

func TestSentinelsFailOver(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	set := testservers.StartRedisSet(t, 3)
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: testservers.RedisMaster, SentinelAddrs: set.SentinelAddrs(),
	})
	t.Cleanup(func() { _ = c.Close() })
	eventually(t, "written on two replicas", func(ctx context.Context) bool {
		replicas, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "k", "before", 0)
			p.Do(ctx, "WAIT", 2, 1000)
			return nil
		})
		return err == nil && replicas[1].(*redis.Cmd).Val() == int64(2)
	})
	old := set.Master(t.Context())

	set.Links[old].Block()
	eventually(t, "another master", func(ctx context.Context) bool {
		return set.Master(ctx) != old && c.Set(ctx, "k", "after", 0).Err() == nil
	})
	// Who is on the side of the old one still writes there.
	beside := redis.NewClient(&redis.Options{Addr: set.Nodes[old].Addr})
	t.Cleanup(func() { _ = beside.Close() })
	if got, err := beside.Get(t.Context(), "k").Result(); err != nil || got != "before" {
		t.Errorf("the partitioned master has %q, %v", got, err)
	}
	set.Links[old].Unblock()
	eventually(t, "the old master as a replica", func(ctx context.Context) bool {
		info, err := beside.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "role:slave") && beside.Get(ctx, "k").Val() == "after"
	})

	second := set.Master(t.Context())
	set.Nodes[second].Kill()
	eventually(t, "a third master", func(ctx context.Context) bool {
		return set.Master(ctx) != second && c.Set(ctx, "k", "last", 0).Err() == nil
	})
}

// eventually waits until something holds. Each try has five seconds.
func eventually(t *testing.T, what string, holds func(context.Context) bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		ok := holds(ctx)
		cancel()
		if ok {
			return
		}
	}
	t.Fatalf("not in time: %s", what)
}

// A follower that is killed between the snapshot and the epoch of a new leader starts again.
func TestZooKeeperKilledWhileItJoinedALeaderStarts(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	ensemble := testservers.StartZooKeepers(t, 3)
	ensemble.Database()
	follower := ensemble.Others(ensemble.Leader())[0]
	follower.Kill()
	site := follower.Server().Site()
	path := site.Path("data/version-2/currentEpoch")
	epoch, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := site.WriteFile("data/version-2/currentEpoch", []byte("0")); err != nil {
		t.Fatal(err)
	}
	follower.Start()
	if repaired, err := os.ReadFile(path); err != nil ||
		!bytes.Equal(bytes.TrimSpace(repaired), bytes.TrimSpace(epoch)) {
		t.Errorf("epoch %q, %v; want %q as before", repaired, err, epoch)
	}
	if !bytes.Contains(site.Output(), []byte("Exiting JVM with code 1")) {
		t.Error("the server did not exit as one does in that state")
	}
}

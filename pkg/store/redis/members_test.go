package redis_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/redis"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// follow makes one server a replica of what is at an address.
func follow(t *testing.T, replica *testservers.Server, addr string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	do(t, replica.Addr, "REPLICAOF", host, port)
}

// online waits until so many links to replicas are in sync.
func online(t *testing.T, master *testservers.Server, want int) {
	t.Helper()
	waitFor(t, func() bool {
		n := 0
		for name, value := range info(t, master.Addr) {
			if strings.HasPrefix(name, "slave") && strings.Contains(value, "state=online") {
				n++
			}
		}
		return n == want
	})
}

// A replica that comes back before its old link is given up is connected twice. It is one server, and nothing waits.
func TestAReplicaThatIsConnectedTwiceIsOne(t *testing.T) {
	master := testservers.Start(t, testservers.KindRedis, "repl-diskless-sync-delay 0", "repl-timeout 3600")
	replica := testservers.Start(t, testservers.KindRedis, "repl-timeout 3600")
	link := testprocess.Link(t, master.Addr)
	follow(t, replica, link.Addr)
	online(t, master, 1)
	s := storetest.Open(t, driver.Config{URI: "redis://" + master.Addr + "?nodes=2", Timeout: time.Second})
	claim(t, s, "g/before")

	link.Block() // what it closes now, the master does not hear of
	follow(t, replica, master.Addr)
	online(t, master, 2)
	claim(t, s, "g/meanwhile")
	if n := info(t, master.Addr)["connected_slaves"]; n != "2" {
		t.Errorf("%s links, so this shows nothing", n)
	}
}

// A replica that has taken the place of another one counts besides it: the other one may come back on the other side of
// a partition, and be a majority with a third. Changes need three of the four, claims an operator who wipes one and
// says so.
func TestAReplicaThatWasReplacedCounts(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	servers, s, _ := set(t)
	master := servers.Nodes[servers.Master(t.Context())]
	gone := servers.Nodes[(servers.Master(t.Context())+1)%3]
	gone.Kill()
	online(t, master, 1)
	other := testservers.Start(t, testservers.KindRedis)
	follow(t, other, master.Addr)
	online(t, master, 2)
	waitFor(t, func() bool {
		out := apply(t, s, lock("g/meanwhile", floor(t, s).Floor+1, lease))
		return out.Status == driver.Unknown &&
			strings.Contains(out.Err.Error(), "4 Redis servers have held the data (127.0.0.1:")
	})
	must(t, s, lock("g/not-claimed", 7, 0), driver.Applied)
	other.Freeze()
	if out := apply(t, s, lock("g/of-two", 7, 0)); out.Status != driver.Unknown {
		t.Errorf("a change that two of four servers have: %+v", out)
	}
	do(t, master.Addr, "HDEL", "shardctl:{default}:gate", "met", "seen")
	must(t, s, lock("g/of-two-again", 7, 0), driver.Applied)
	other.Thaw()
	claim(t, s, "g/after")
}

// Servers too many may be a majority of their own, also when they are gone. That is logged, once.
func TestServersTooManyAreRemembered(t *testing.T) {
	master := testservers.Start(t, testservers.KindRedis, "repl-diskless-sync-delay 0")
	one, two := testservers.Start(t, testservers.KindRedis), testservers.Start(t, testservers.KindRedis)
	follow(t, one, master.Addr)
	online(t, master, 1)
	var logged []string
	uri := "redis://" + master.Addr + "?nodes=2"
	s := storetest.Open(t, driver.Config{URI: uri, Timeout: time.Second, Logger: funcr.New(func(_, args string) {
		logged = append(logged, args)
	}, funcr.Options{})})
	claim(t, s, "g/before")
	follow(t, two, master.Addr)
	online(t, master, 2)
	for range 3 {
		if out := apply(t, s, lock("g/meanwhile", 9, 0)); out.Status != driver.Unknown {
			t.Errorf("a change with a server too many: %+v", out)
		}
	}
	do(t, two.Addr, "REPLICAOF", "NO", "ONE")
	online(t, master, 1)
	const todo = "delete this key"
	deny := func() bool {
		out := apply(t, s, lock("g/after", floor(t, s).Floor+1, lease))
		if out.Status != driver.Unknown || !errors.Is(out.Err, driver.ErrUnavailable) {
			t.Fatalf("a claim after a server too many: %+v", out)
		}
		return strings.Contains(out.Err.Error(), todo)
	}
	waitFor(t, deny)
	for range 3 {
		deny()
	}
	if len(logged) != 2 || !strings.Contains(logged[0], "3 Redis servers hold the data") ||
		!strings.Contains(logged[1], todo) {
		t.Errorf("logged %q, want each reason once", logged)
	}
	wantShut(t, storetest.Open(t, driver.Config{URI: uri}))

	do(t, master.Addr, "DEL", "shardctl:{default}:gate")
	claim(t, s, "g/after")
}

// wantShut wants the closed gate among problems and settings.
func wantShut(t *testing.T, s driver.Store) {
	t.Helper()
	if p := store.Problems(s); len(p) != 1 || p[0].Reason != redis.ReasonClosed ||
		!strings.Contains(p[0].Message, "3 Redis") {
		t.Errorf("problems %+v", p)
	}
	i, err := store.Inspect(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range i.Settings {
		if setting.Name == "too many nodes seen" && !setting.Holds && strings.HasPrefix(setting.Value, "3 127.0.0.1:") {
			return
		}
	}
	t.Errorf("inspected: %+v", i.Settings)
}

package redis_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/redis"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// documented is the command that gives the least rights, as the page shows it.
func documented(t *testing.T) []any {
	t.Helper()
	page, err := os.ReadFile("../../../docs/stores/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "ACL SETUSER")
	command, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("the page shows no ACL SETUSER")
	}
	all := []any{"ACL", "SETUSER"}
	for word := range strings.FieldsSeq(command) {
		all = append(all, word)
	}
	return all
}

// The rights of the documentation are enough for everything, and leave nothing unchecked.
func TestTheLeastRights(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	do(t, server.Addr, documented(t)...)
	do(t, server.Addr, "ACL", "SETUSER", "default", "resetpass", "-@all", "+acl", "+flushall")
	db := 0
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		db++
		c := driver.Config{URI: "redis://shardctl:PASSWORD@" + server.Addr, Database: itoa(db)}
		if got := store.Problems(storetest.Open(t, c)); len(got) > 0 {
			t.Errorf("problems %v", got)
		}
		found := suite(t, c)
		found.Neighbour = nil // the user's rights are for one cluster
		return found
	})
}

// Without the channel and without CONFIG the store works, and says what it lacks.
func TestFewerRights(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	server := testservers.Start(t, testservers.KindRedis)
	do(t, server.Addr, documented(t)...)
	do(t, server.Addr, "ACL", "SETUSER", "shardctl", "resetchannels", "-config|get")
	uri := "redis://shardctl:PASSWORD@" + server.Addr
	got := ""
	for _, p := range store.Problems(storetest.Open(t, driver.Config{URI: uri})) {
		got += p.Reason + " "
	}
	if want := redis.ReasonUnknown + " " + redis.ReasonPolled + " "; got != want {
		t.Errorf("problems %q, want %q", got, want)
	}
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		return suite(t, driver.Config{URI: uri})
	}, "watch")
}

func TestTLS(t *testing.T) {
	cert, key := testprocess.Certificate(t, "server")
	other, otherKey := testprocess.Certificate(t, "other")
	ports, err := testprocess.FreePorts(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	testservers.Start(t, testservers.KindRedis, "tls-port "+itoa(ports[0]), "tls-cert-file "+cert,
		"tls-key-file "+key, "tls-ca-cert-file "+cert, "tls-auth-clients yes")
	storetest.TLS{
		URI: func(f storetest.Files) string {
			return "rediss://" + testprocess.Loopback + ":" + itoa(ports[0]) + f.Params()
		},
		Right:     storetest.Files{Authority: cert, Cert: cert, Key: key},
		Stranger:  storetest.Files{Authority: other, Cert: other, Key: otherKey},
		Untrusted: "name its file by tlsCAFile",
	}.Run(t)
}

// At most four connections a replica, the guard's among them.
func TestConnections(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	uri := server.Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	if _, err := s.Watch(t.Context(), driver.Interest{}); err != nil {
		t.Fatal(err)
	}
	guard := storetest.Open(t, driver.Config{URI: uri, Existing: true})
	for _, of := range []driver.Store{s, guard} {
		for range 3 {
			for _, kind := range driver.Kinds() {
				if _, err := of.Read(t.Context(), kind, "x"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	list, err := client(t, server.Addr).ClientList(t.Context()).Result()
	if n := strings.Count(list, "name=shardctl"); err != nil || n != 4 {
		t.Errorf("%d connections, %v; want 4:\n%s", n, err, list)
	}
}

// A cluster's node that does not have the keys says who has.
func TestACluster(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	var nodes []*testservers.Server
	buses, err := testprocess.FreePorts(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, bus := range buses {
		nodes = append(nodes, testservers.Start(t, testservers.KindRedis, "cluster-enabled yes", "databases 1",
			"cluster-port "+itoa(bus)))
	}
	// The first has all slots, and the second knows it.
	do(t, nodes[0].Addr, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	host, port, _ := strings.Cut(nodes[0].Addr, ":")
	do(t, nodes[1].Addr, "CLUSTER", "MEET", host, port, buses[0])
	for _, node := range nodes {
		waitFor(t, func() bool {
			state, err := client(t, node.Addr).ClusterInfo(t.Context()).Result()
			return err == nil && strings.Contains(state, "cluster_state:ok")
		})
	}
	uri := "redis+cluster://" + nodes[1].Addr + "," + nodes[0].Addr + "?nodes=1"
	s := storetest.Open(t, driver.Config{URI: uri, Timeout: 2 * time.Second})
	claim(t, s, "g/a")
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		return suite(t, driver.Config{URI: uri, Cluster: testservers.Name()})
	})
	refused(t, "redis://"+nodes[0].Addr, driver.ErrInvalid, "use redis+cluster://")
}

//go:build unix

package testservers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/test/testprocess"
)

// KindRedis is a Redis, or Valkey, that has each write on the disk before it confirms it.
const KindRedis Kind = "redis"

// redisDatabases is how many databases a server has: as many as a package's tests ask for.
const redisDatabases = 10_000

func init() {
	register(KindRedis, definition{
		software: func() testprocess.Software { return NewRedis() },
		database: func(_ context.Context, s *testprocess.Server) (string, error) {
			return "redis://" + s.Addr() + "/" + strconv.FormatInt(s.Software().(*Redis).last.Add(1), 10), nil
		},
	})
}

// Redis is the programs of a Redis or Valkey.
type Redis struct {
	server string
	config []string
	last   atomic.Int64 // number of the database last made
}

// NewRedis makes one whose configuration has these further lines.
func NewRedis(config ...string) *Redis { return &Redis{config: config} }

// Ports is one.
func (r *Redis) Ports() int { return 1 }

// Provide finds the server.
func (r *Redis) Provide(context.Context) (err error) {
	r.server, err = testprocess.Program(string(KindRedis), "redis-server", "redis-server", "valkey-server")
	return err
}

// Prepare leaves a configuration alone that is there: a sentinel has the server write there whose replica it is.
func (r *Redis) Prepare(_ context.Context, s *testprocess.Site) error {
	if _, err := os.Stat(s.Path("redis.conf")); err == nil {
		return nil
	}
	return s.Write("redis.conf", slices.Concat([]string{
		"bind " + testprocess.Loopback,
		"port " + strconv.Itoa(s.Ports[0]),
		`dir "` + s.Dir + `"`,
		"databases " + strconv.Itoa(redisDatabases),
		"appendonly yes",
		"appendfsync always",
		`save ""`,
	}, r.config)...)
}

// Commands is the server alone.
func (r *Redis) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: []string{r.server, s.Path("redis.conf")}}}
}

// Ready waits until the data is loaded. One that asks for a password answers too.
func (r *Redis) Ready(ctx context.Context, s *testprocess.Site) error {
	line, err := testprocess.AskLine(ctx, s.Addr(0), "PING\r\n")
	if err != nil {
		return err
	}
	if line != "+PONG" && !strings.HasPrefix(line, "-NOAUTH") {
		return fmt.Errorf("redis says %q", line)
	}
	return nil
}

const (
	// RedisMaster is what sentinels call a set's master.
	RedisMaster = "mymaster"
	// redisSentinels is how many watch over a set; two of them agree on a failover.
	redisSentinels = 3
)

// RedisSet is a Redis with replicas, and three sentinels that fail over after a second. Everybody reaches a node
// through its link: the others, the sentinels, and who asks those. A node whose link is blocked is partitioned, and who
// dials its own address is on its side.
type RedisSet struct {
	Nodes     []*Server // the first is the master at the beginning
	Links     []*Proxy  // in front of the nodes, in the same order
	Sentinels []*Server
	tb        testing.TB
}

// StartRedisSet starts a set with so many nodes that ends with the test. Config lines are for each node.
func StartRedisSet(tb testing.TB, nodes int, config ...string) *RedisSet {
	tb.Helper()
	set := testprocess.Fresh(tb, family, string(KindRedis), func(ctx context.Context, dir string) (*redisSet, error) {
		return openRedisSet(ctx, dir, nodes, config)
	})
	all := set.use(tb)
	return &RedisSet{Nodes: all[:nodes], Links: set.links, Sentinels: all[nodes:], tb: tb}
}

// redisSet are the nodes, then the sentinels.
type redisSet struct {
	servers
	links []*Proxy
}

// Close ends all for good.
func (s *redisSet) Close() {
	s.servers.Close()
	for _, link := range s.links {
		link.Close()
	}
}

func openRedisSet(ctx context.Context, dir string, nodes int, config []string) (_ *redisSet, err error) {
	set := &redisSet{}
	defer func() {
		if err != nil {
			set.Close()
		}
	}()
	for i := range nodes {
		ports, err := testprocess.FreePorts(ctx, 1)
		if err != nil {
			return nil, err
		}
		link, err := testprocess.NewProxy(ctx, testprocess.Loopback+":0",
			testprocess.Loopback+":"+strconv.Itoa(ports[0]))
		if err != nil {
			return nil, err
		}
		set.links = append(set.links, link)
		node, err := testprocess.Open(ctx, fmt.Sprintf("redis node %d", i+1), NewRedis(set.lines(i)...),
			filepath.Join(dir, "node"+strconv.Itoa(i+1)), testprocess.Options{Ports: ports, Config: config})
		if err != nil {
			return nil, err
		}
		set.all = append(set.all, node)
	}
	return set, set.openSentinels(ctx, dir)
}

// lines are what makes the i-th node one of the set.
func (s *redisSet) lines(i int) []string {
	port := func(i int) string { return s.links[i].Addr[strings.LastIndexByte(s.links[i].Addr, ':')+1:] }
	lines := []string{
		"replica-announce-ip " + testprocess.Loopback,
		"replica-announce-port " + port(i),
		"repl-diskless-sync-delay 0", // by default a replica waits 5 s for others
		"repl-timeout 5",             // a replica that is frozen counts as connected for so long
		"repl-ping-replica-period 1", // or a replica takes a master that is idle for a dead one
	}
	if i > 0 {
		lines = append(lines, "replicaof "+testprocess.Loopback+" "+port(0))
	}
	return lines
}

func (s *redisSet) openSentinels(ctx context.Context, dir string) error {
	nodes := len(s.all)
	opened, err := testprocess.OpenAll(redisSentinels, func(i int) (*testprocess.Server, error) {
		return testprocess.Open(ctx, fmt.Sprintf("redis sentinel %d", i+1), &sentinel{master: s.links[0].Addr},
			filepath.Join(dir, "sentinel"+strconv.Itoa(i+1)), testprocess.Options{})
	})
	s.all = append(s.all, opened...)
	if err != nil {
		return err
	}
	want := fmt.Sprintf("slaves=%d,sentinels=%d", nodes-1, redisSentinels)
	for _, server := range opened {
		if err := waitSentinel(ctx, server.Addr(), want); err != nil {
			return err
		}
	}
	return nil
}

// waitSentinel waits until a sentinel says this of the master.
func waitSentinel(ctx context.Context, addr, want string) error {
	for {
		line, err := askSentinel(ctx, addr)
		if strings.Contains(line, want) {
			return nil
		}
		if clock.Sleep(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("sentinel at %s says %q (%w), not %q", addr, line, err, want)
		}
	}
}

// askSentinel is the line with a sentinel's view: master0:name=…,status=ok,address=127.0.0.1:6379,slaves=2,sentinels=3.
func askSentinel(ctx context.Context, addr string) (string, error) {
	lines, err := redisInfo(ctx, addr, "sentinel")
	for _, line := range lines {
		if strings.HasPrefix(line, "master0:") {
			return line, nil
		}
	}
	return "", err
}

// redisInfo are the lines of a section of INFO. It waits a second for them.
func redisInfo(ctx context.Context, addr, section string) (lines []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := testprocess.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "INFO "+section+"\r\nQUIT\r\n"); err != nil {
		return nil, err
	}
	answer := bufio.NewScanner(conn)
	for answer.Scan() {
		lines = append(lines, answer.Text())
	}
	return lines, answer.Err()
}

// Follows says whether a node is a replica that has all that its master has.
func (s *RedisSet) Follows(ctx context.Context, node int) (bool, error) {
	lines, err := redisInfo(ctx, s.Nodes[node].Addr, "replication")
	return slices.Contains(lines, "role:slave") && slices.Contains(lines, "master_link_status:up"), err
}

// Master is the index of the node that the first living sentinel calls the master.
func (s *RedisSet) Master(ctx context.Context) int {
	s.tb.Helper()
	for _, server := range s.Sentinels {
		line, err := askSentinel(ctx, server.Addr)
		for i, link := range s.Links {
			if err == nil && strings.Contains(line, "address="+link.Addr+",") {
				return i
			}
		}
	}
	s.tb.Fatal("no sentinel says who is the master")
	return 0
}

// URI names the sentinels, as stores take it.
func (s *RedisSet) URI() string {
	return fmt.Sprintf("redis+sentinel://%s/%s?nodes=%d", strings.Join(s.SentinelAddrs(), ","), RedisMaster,
		len(s.Nodes))
}

// WaitMaster waits until the sentinels call another node than this one the master, and returns it.
func (s *RedisSet) WaitMaster(ctx context.Context, not int) int {
	s.tb.Helper()
	for {
		if i := s.Master(ctx); i != not {
			return i
		}
		if clock.Sleep(ctx, 20*time.Millisecond) != nil {
			s.tb.Fatal("no other node has become the master")
		}
	}
}

// SentinelAddrs are HOST:PORT of the sentinels.
func (s *RedisSet) SentinelAddrs() []string { return addrs(s.Sentinels) }

// sentinel is a server that watches over a master.
type sentinel struct {
	Redis
	master string // HOST:PORT
}

// Prepare leaves the file alone where it is: the sentinel keeps there what it has learnt.
func (t *sentinel) Prepare(_ context.Context, s *testprocess.Site) error {
	if _, err := os.Stat(s.Path("sentinel.conf")); err == nil {
		return nil
	}
	host, port, _ := strings.Cut(t.master, ":")
	return s.Write("sentinel.conf",
		"bind "+testprocess.Loopback,
		"port "+strconv.Itoa(s.Ports[0]),
		`dir "`+s.Dir+`"`,
		"sentinel monitor "+RedisMaster+" "+host+" "+port+" 2",
		"sentinel down-after-milliseconds "+RedisMaster+" 1000",
		"sentinel failover-timeout "+RedisMaster+" 5000",
	)
}

// Commands is the server as a sentinel.
func (t *sentinel) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: []string{t.server, s.Path("sentinel.conf"), "--sentinel"}}}
}

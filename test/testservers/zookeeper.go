//go:build unix

package testservers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/test/testprocess"
)

// KindZooKeeper is one Apache ZooKeeper server. [StartZooKeepers] starts an ensemble.
const KindZooKeeper Kind = "zookeeper"

func init() {
	register(KindZooKeeper, definition{
		software: func() testprocess.Software { return &zookeeper{} },
		database: func(ctx context.Context, s *testprocess.Server) (string, error) {
			return zookeeperDatabase(ctx, s.Addr())
		},
	})
}

// Times of the tests' servers. A leader that is silent for zookeeperTick × zookeeperSyncLimit is replaced.
const (
	zookeeperTick      = 400 // ms
	zookeeperSyncLimit = 5   // ticks
)

// zookeeper is the programs of one server, alone or of an ensemble.
type zookeeper struct {
	java, classpath string
	id              int     // 1, 2, …; 0: it is alone
	ports           [][]int // of all servers of the ensemble, by id - 1: clients, followers, elections
}

// Ports implements [testprocess.Software].
func (z *zookeeper) Ports() int { return 1 }

// Provide finds Java and Debian's jars.
func (z *zookeeper) Provide(context.Context) (err error) {
	kind := string(KindZooKeeper)
	if z.java, err = testprocess.Program(kind, "default-jre-headless", "java"); err != nil {
		return err
	}
	const jars = "/usr/share/java/"
	if _, err := os.Stat(jars + "zookeeper.jar"); err != nil {
		return testprocess.Missing(kind, "%w (Debian: apt-get install --no-install-recommends zookeeper)", err)
	}
	all := []string{jars + "zookeeper.jar", jars + "slf4j-simple.jar"} // with what its manifest names
	netty, err := filepath.Glob(jars + "netty-*.jar")                  // for TLS
	if err != nil {
		return err
	}
	z.classpath = strings.Join(append(all, netty...), ":")
	return nil
}

// Prepare implements [testprocess.Software].
func (z *zookeeper) Prepare(_ context.Context, s *testprocess.Site) error {
	if err := os.MkdirAll(s.Path("data"), 0o700); err != nil {
		return fmt.Errorf("directory of data: %w", err)
	}
	lines := []string{
		"tickTime=" + strconv.Itoa(zookeeperTick),
		"initLimit=20",
		"syncLimit=" + strconv.Itoa(zookeeperSyncLimit),
		"dataDir=" + s.Path("data"),
		"clientPort=" + strconv.Itoa(s.Ports[0]),
		"clientPortAddress=" + testprocess.Loopback,
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=srvr,ruok,conf",
	}
	for i, ports := range z.ports {
		lines = append(lines, fmt.Sprintf("server.%d=%s:%d:%d", i+1, testprocess.Loopback, ports[1], ports[2]))
	}
	if z.id > 0 {
		if err := s.WriteFile("data/myid", []byte(strconv.Itoa(z.id))); err != nil {
			return err
		}
	}
	return errors.Join(mendEpoch(s), s.Write("zoo.cfg", lines...))
}

// olderEpoch is what a server of ZooKeeper says before it exits with status 1.
var olderEpoch = regexp.MustCompile(`The current epoch, (\d+), is older than the last zxid, (\d+)`)

// mendEpoch has a follower start that was killed while it joined a leader. It first writes the leader's snapshot, and
// then the leader's epoch to the file currentEpoch (Learner.syncWithLeader of 3.8). Killed in between, it never starts
// again: "Unable to load database on disk". What its last exit says is the epoch that it would have written.
func mendEpoch(s *testprocess.Site) error {
	const name = "data/version-2/currentEpoch"
	all := olderEpoch.FindAllSubmatch(s.Output(), -1)
	is, err := os.ReadFile(s.Path(name))
	if len(all) == 0 || err != nil {
		return nil //nolint:nilerr // it has not started yet, and there is nothing to repair
	}
	said := all[len(all)-1]
	if !bytes.Equal(bytes.TrimSpace(is), said[1]) {
		return nil // it has started since
	}
	zxid, err := strconv.ParseInt(string(said[2]), 10, 64)
	if err != nil {
		return fmt.Errorf("epoch of ZooKeeper: %w", err)
	}
	return s.WriteFile(name, strconv.AppendInt(nil, zxid>>32, 10))
}

// Commands is the server alone. It takes little memory, and no 64 MB of disk for each log of transactions.
func (z *zookeeper) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: []string{
		z.java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true",
		"-Dzookeeper.preAllocSize=1024", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", z.classpath,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", s.Path("zoo.cfg"),
	}}}
}

// Ready waits until it serves clients, or, of an ensemble, until it runs: a majority may be down.
func (z *zookeeper) Ready(ctx context.Context, s *testprocess.Site) error {
	if z.id == 0 {
		_, err := zookeeperMode(ctx, s.Addr(0))
		return err
	}
	return testprocess.Ask(ctx, s.Addr(0), []byte("ruok"), make([]byte, len("imok")))
}

// zookeeperMode is leader, follower or standalone. It is an error that there is no majority.
func zookeeperMode(ctx context.Context, addr string) (string, error) {
	conn, err := testprocess.Dial(ctx, addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(answer)) {
		if mode, found := strings.CutPrefix(strings.TrimSpace(line), "Mode: "); found {
			return mode, nil
		}
	}
	return "", fmt.Errorf("zookeeper says %q", answer)
}

// zookeeperDatabase makes a znode to keep all else in. addrs are HOST:PORT,….
func zookeeperDatabase(ctx context.Context, addrs string) (uri string, err error) {
	path := "/" + Name()
	err = zookeeperDo(ctx, addrs, func(conn *zk.Conn) error {
		_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		return err
	})
	return "zk://" + addrs + path, err
}

// zookeeperDo has a client of its own do something, again as long as connections break.
func zookeeperDo(ctx context.Context, addrs string, do func(*zk.Conn) error) error {
	conn, _, err := zk.Connect(strings.Split(addrs, ","), 4*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, conn.Close)
	defer func() {
		if stop() {
			conn.Close()
		}
	}()
	for {
		err := do(conn)
		if !slices.Contains([]error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrSessionExpired}, err) ||
			ctx.Err() != nil {
			return err
		}
	}
}

// electionTimeout is how long [ZooKeepers.Leader] waits for an election on a busy machine.
const electionTimeout = time.Minute

// ZooKeepers is an ensemble of ZooKeeper servers, one of which leads.
type ZooKeepers struct {
	Servers []*Server
	tb      testing.TB
}

// StartZooKeepers starts an ensemble of n servers that ends with the test. Config lines are for all of them.
func StartZooKeepers(tb testing.TB, n int, config ...string) *ZooKeepers {
	tb.Helper()
	all := testprocess.Fresh(tb, family, string(KindZooKeeper),
		func(ctx context.Context, dir string) (*servers, error) {
			return openZooKeepers(ctx, dir, n, config)
		})
	z := &ZooKeepers{Servers: all.use(tb), tb: tb}
	z.Leader()
	return z
}

// openZooKeepers starts all at once: none of them serves clients without a majority.
func openZooKeepers(ctx context.Context, dir string, n int, config []string) (*servers, error) {
	ports, err := testprocess.FreePorts(ctx, 3*n)
	if err != nil {
		return nil, err
	}
	of := make([][]int, n)
	for i := range of {
		of[i] = ports[3*i : 3*i+3]
	}
	return openServers(n, func(i int) (*testprocess.Server, error) {
		return testprocess.Open(ctx, string(KindZooKeeper), &zookeeper{id: i + 1, ports: of},
			filepath.Join(dir, strconv.Itoa(i+1)), testprocess.Options{Config: config, Ports: of[i][:1]})
	})
}

// Addrs are HOST:PORT,… of all.
func (z *ZooKeepers) Addrs() string { return strings.Join(addrs(z.Servers), ",") }

// Database makes a database of its own, and returns its URI, which names all servers.
func (z *ZooKeepers) Database() string {
	z.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(z.tb.Context()), databaseTimeout)
	defer cancel()
	uri, err := zookeeperDatabase(ctx, z.Addrs())
	if err != nil {
		z.tb.Fatal(err)
	}
	return uri
}

// Leader waits until one leads and all others follow, and fails the test when that takes a minute. A server that was
// just started may still fetch the leader's data. Elections fail until it has, each after initLimit.
func (z *ZooKeepers) Leader() *Server {
	z.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(z.tb.Context()), electionTimeout)
	defer cancel()
	leader, err := z.await(ctx, func(leader *Server, serving int) bool {
		return leader != nil && serving == len(z.Servers)
	})
	if err != nil {
		z.tb.Fatal(err)
	}
	return leader
}

// FindLeader returns who leads now, whatever the others do. It waits until ctx ends.
func (z *ZooKeepers) FindLeader(ctx context.Context) (*Server, error) {
	return z.await(ctx, func(leader *Server, _ int) bool { return leader != nil })
}

// await asks all servers again and again, until enough says so of the one that leads, if any, and of how many lead or
// follow. Those that were asked so far count.
func (z *ZooKeepers) await(ctx context.Context, enough func(leader *Server, serving int) bool) (*Server, error) {
	for {
		var leader *Server
		serving := 0
		for _, s := range z.Servers {
			brief, cancel := context.WithTimeout(ctx, time.Second)
			mode, err := zookeeperMode(brief, s.Addr)
			cancel()
			if err != nil {
				continue
			}
			serving++
			if mode == "leader" {
				leader = s
			}
			if enough(leader, serving) {
				return leader, nil
			}
		}
		if clock.Sleep(ctx, 20*time.Millisecond) != nil {
			return nil, fmt.Errorf("of %s %d lead or follow: %w", z.Addrs(), serving, context.Cause(ctx))
		}
	}
}

// Others are all servers but one.
func (z *ZooKeepers) Others(one *Server) []*Server {
	var others []*Server
	for _, s := range z.Servers {
		if s != one {
			others = append(others, s)
		}
	}
	return others
}

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
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/internal/testprocess"
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
	reply := make([]byte, len("imok"))
	if err := testprocess.Ask(ctx, s.Addr(0), []byte("ruok"), reply); err != nil {
		return err
	}
	return nil
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

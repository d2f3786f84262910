//go:build unix

package testmongo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/internal/freeport"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/toolcache"
)

// ErrExternal says that what was asked needs processes of one's own, and the server is that of
// SHARDCTL_TEST_MONGODB_URI. Use Options.Own.
var ErrExternal = errors.New("the server of " + EnvURI + " is not this test's own")

// replicaSetName is the name of every set this package starts.
const replicaSetName = "shardctl"

// startAttempts is how often Start tries again when a port it found free was taken meanwhile.
const startAttempts = 3

// A ReplicaSet is a running MongoDB. Its methods may be called concurrently.
type ReplicaSet struct {
	opts     Options
	external string // URI of a server that is not ours
	nodes    []*Node
	machine  *machine
	thread   *process.Thread // starts mongod
	dir      string          // holds data and logs, and the lock that says they are in use
	unlock   func()
	life     context.Context // of the processes; ended by Close
	end      context.CancelFunc

	key, rootPassword string // with Options.Auth; the password once there is a root

	mu      sync.Mutex
	clients map[string]*mongo.Client // by address, for commands to one node
	closed  bool
}

// Start starts a MongoDB and returns once it has a primary and all its nodes are in sync. It takes about two seconds,
// and longer when the server has to be fetched first. The error wraps [ErrNoServer] when there is nothing to start.
func Start(ctx context.Context, opts Options) (*ReplicaSet, error) {
	if opts.Nodes == 0 {
		opts.Nodes = 3
		if opts.Standalone {
			opts.Nodes = 1
		}
	}
	own := opts.Own || opts.Host != "" || opts.Standalone || opts.Arbiters > 0 || len(opts.Args) > 0 || opts.Auth ||
		opts.TLS != nil
	if uri := os.Getenv(EnvURI); uri != "" && !own {
		return &ReplicaSet{opts: opts, external: uri, clients: map[string]*mongo.Client{}}, nil
	}
	var failure error
	for range startAttempts {
		rs, err := startOwn(ctx, opts)
		if err == nil {
			return rs, nil
		}
		failure = err
		if !errors.Is(err, errExited) || ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("start MongoDB: %w", failure)
}

func startOwn(ctx context.Context, opts Options) (_ *ReplicaSet, err error) {
	removeStale(ctx)
	dir, unlock, err := newDir(ctx)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	rs := &ReplicaSet{
		opts: opts, thread: process.NewThread(), dir: dir, unlock: unlock, life: life, end: end,
		clients: map[string]*mongo.Client{},
	}
	defer func() { //nolint:contextcheck // cleaning up goes on when ctx has ended
		if err != nil {
			err = fmt.Errorf("%w%s", err, rs.LogTail(5))
			_ = rs.Close()
		}
	}()
	rs.makeKey()
	ports, err := freeport.Ports(ctx, opts.host(), opts.Nodes)
	if err != nil {
		return nil, err
	}
	if rs.machine, err = findMachine(ctx, dir, opts.host(), ports); err != nil {
		return nil, err
	}
	for i, port := range ports {
		n := &Node{rs: rs, index: i, port: port}
		rs.nodes = append(rs.nodes, n)
		if err := n.start(); err != nil {
			return nil, err
		}
	}
	for _, n := range rs.nodes {
		if err := n.waitUp(ctx); err != nil {
			return nil, err
		}
	}
	if !opts.Standalone {
		if err := rs.initiate(ctx); err != nil {
			return nil, err
		}
	}
	return rs, rs.makeRoot(ctx)
}

// initiate makes the nodes a replica set with an election time-out of a second, and waits until each is primary or
// secondary.
func (rs *ReplicaSet) initiate(ctx context.Context) error {
	members := bson.A{}
	for i, n := range rs.nodes {
		members = append(
			members, bson.M{"_id": i, "host": n.Addr(), "arbiterOnly": i >= len(rs.nodes)-rs.opts.Arbiters},
		)
	}
	config := bson.M{
		"_id": replicaSetName, "members": members,
		"settings": bson.M{"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200, "heartbeatTimeoutSecs": 2},
	}
	if err := rs.nodes[0].Run(ctx, bson.D{{Key: "replSetInitiate", Value: config}}).Err(); err != nil {
		return fmt.Errorf("initiate the replica set: %w", err)
	}
	if _, err := rs.Primary(ctx); err != nil {
		return err
	}
	return rs.WaitInSync(ctx)
}

// URI is the connection string, without a database.
func (rs *ReplicaSet) URI() string {
	if rs.external != "" {
		return rs.external
	}
	addrs := make([]string, 0, len(rs.nodes))
	for _, n := range rs.nodes {
		addrs = append(addrs, n.Addr())
	}
	uri := "mongodb://" + strings.Join(addrs, ",") + "/"
	if rs.opts.Standalone {
		return uri + "?directConnection=true"
	}
	return uri + "?replicaSet=" + replicaSetName
}

// Nodes are the processes; none when the server is that of SHARDCTL_TEST_MONGODB_URI.
func (rs *ReplicaSet) Nodes() []*Node { return rs.nodes }

// Close kills the processes and removes their data. Closing twice does nothing.
func (rs *ReplicaSet) Close() error { return rs.close(false) }

// close with keepLogs leaves the directory of the logs; see LogDir.
func (rs *ReplicaSet) close(keepLogs bool) error {
	rs.mu.Lock()
	closed := rs.closed
	rs.closed = true
	rs.mu.Unlock()
	if closed {
		return nil
	}
	rs.disconnect()
	if rs.external != "" {
		return nil
	}
	for _, n := range rs.nodes {
		_ = n.Cont() // docker passes no signal to a stopped process
		_ = n.Kill()
	}
	rs.end()
	if rs.machine != nil {
		rs.machine.close()
	}
	rs.thread.Close()
	defer rs.unlock()
	if keepLogs {
		return os.RemoveAll(filepath.Join(rs.dir, "data"))
	}
	return os.RemoveAll(rs.dir)
}

// newDir makes the directory of a set and locks it for as long as this process lives.
func newDir(ctx context.Context) (dir string, unlock func(), err error) {
	dir, err = os.MkdirTemp("", dirPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("directory for mongod: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "logs"), 0o700); err != nil {
		return "", nil, fmt.Errorf("directory for mongod: %w", err)
	}
	unlock, err = toolcache.Lock(ctx, filepath.Join(dir, "lock"))
	return dir, unlock, err
}

const dirPrefix = "shardctl-mongo-"

// removeStale removes what sets of killed processes left behind: 300 MB of journals each. A directory whose lock is
// free has no owner, once it is older than a moment.
func removeStale(ctx context.Context) {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
		unlock, err := toolcache.Lock(ctx, filepath.Join(dir, "lock"))
		cancel()
		if err != nil {
			continue
		}
		_ = os.RemoveAll(filepath.Join(dir, "data"))
		if time.Since(info.ModTime()) > 24*time.Hour { // logs are small, and kept a day for those who look
			_ = os.RemoveAll(dir)
		}
		unlock()
	}
}

// LogDir is where the logs of all nodes are.
func (rs *ReplicaSet) LogDir() string { return filepath.Join(rs.dir, "logs") }

// LogTail is the last lines of each node's log, to be shown when a test fails.
func (rs *ReplicaSet) LogTail(lines int) string {
	var b strings.Builder
	for _, n := range rs.nodes {
		text, err := os.ReadFile(n.logFile())
		if err != nil {
			continue
		}
		all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		fmt.Fprintf(&b, "\n--- mongod on port %d", n.port)
		for _, line := range all[max(0, len(all)-lines):] {
			fmt.Fprintf(&b, "\n%s", line)
		}
	}
	return b.String()
}

//go:build unix

package testmongo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// ErrExternal says that what was asked needs processes of one's own, and the server is that of
// SHARDCTL_TEST_MONGODB_URI. Use Options.Own.
var ErrExternal = errors.New("the server of " + EnvURI + " is not this test's own")

// replicaSetName is the name of every set this package starts.
const replicaSetName = "shardctl"

// A ReplicaSet is a running MongoDB. Its methods may be called concurrently.
type ReplicaSet struct {
	opts     Options
	external string // URI of a server that is not ours
	nodes    []*Node
	work     *testprocess.Work // of Start

	rootPassword string // with Options.Auth, once there is a root

	mu      sync.Mutex
	clients map[string]*mongo.Client // by address, for commands to one node
	closed  bool
}

// Start starts a MongoDB and returns once it has a primary and all its nodes are in sync. It takes about two seconds,
// and longer when the server has to be fetched first. The error wraps [ErrNoServer] when there is nothing to start.
func Start(ctx context.Context, opts Options) (*ReplicaSet, error) {
	work, err := testprocess.WorkDir("mongo")
	if err != nil {
		return nil, err
	}
	rs, err := open(ctx, work.Data(), opts)
	if err != nil {
		return nil, errors.Join(err, work.Close(false))
	}
	rs.work = work
	return rs, nil
}

// open is Start in a directory of the caller's, which stays.
func open(ctx context.Context, dir string, opts Options) (_ *ReplicaSet, err error) {
	rs := &ReplicaSet{opts: opts, clients: map[string]*mongo.Client{}}
	if uri := os.Getenv(EnvURI); uri != "" && !opts.own() {
		rs.external = uri
		return rs, nil
	}
	defer func() { //nolint:contextcheck // cleaning up goes on when ctx has ended
		if err != nil {
			err = fmt.Errorf("start MongoDB: %w%s", err, rs.LogTail(5))
			rs.Close()
		}
	}()
	if err := rs.startNodes(ctx, dir); err != nil {
		return nil, err
	}
	if !opts.Standalone {
		if err := rs.initiate(ctx); err != nil {
			return nil, err
		}
	}
	return rs, rs.makeRoot(ctx)
}

// startNodes starts all at once.
func (rs *ReplicaSet) startNodes(ctx context.Context, dir string) error {
	count, key := rs.opts.nodes(), rs.opts.makeKey()
	opened, errs := make([]*testprocess.Server, count), make([]error, count)
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			name := fmt.Sprintf("n%d", i)
			opened[i], errs[i] = testprocess.Open(ctx, "mongod "+name, &mongod{opts: rs.opts, key: key},
				filepath.Join(dir, name), testprocess.Options{Host: rs.opts.Host})
		})
	}
	all.Wait()
	for _, server := range opened {
		if server != nil {
			rs.nodes = append(rs.nodes, &Node{Server: server, rs: rs})
		}
	}
	return cmp.Or(errs...)
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

// Close kills the processes and removes what [Start] made. Closing twice does nothing.
func (rs *ReplicaSet) Close() {
	rs.mu.Lock()
	closed := rs.closed
	rs.closed = true
	rs.mu.Unlock()
	if closed {
		return
	}
	rs.disconnect()
	for _, n := range rs.nodes {
		n.Close()
	}
	if rs.work == nil {
		return
	}
	if err := rs.work.Close(false); err != nil {
		fmt.Fprintln(os.Stderr, "remove the data of MongoDB:", err)
	}
}

// LogTail is the last lines of each node's log, to be shown when a test fails.
func (rs *ReplicaSet) LogTail(lines int) string {
	var all strings.Builder
	for _, n := range rs.nodes {
		all.WriteString(n.LogTail(lines))
	}
	return all.String()
}

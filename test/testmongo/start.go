//go:build unix

package testmongo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

// Options say what [Start] starts. The zero value is a replica set of three nodes.
type Options struct {
	// Nodes is the number of nodes; 0 means 3, or 1 with Standalone.
	Nodes int
	// Arbiters is how many of the nodes, the last ones, are arbiters: they vote and hold no data.
	Arbiters int
	// Standalone starts one mongod that is not a replica set: no change streams, no retryable writes.
	Standalone bool
	// Own asks for processes of one's own even when SHARDCTL_TEST_MONGODB_URI names a server: for tests that stop
	// nodes or set fail points. Standalone, Arbiters, Args, Auth, TLS and Host imply it.
	Own bool
	// Host is an address of this machine that the nodes listen on and know each other by, for clients elsewhere; empty:
	// 127.0.0.1. Anyone who reaches it can read and write, so it is for networks of its own.
	Host string
	// ExtraParams are further server parameters (--setParameter).
	ExtraParams map[string]string
	// Args are further arguments of each mongod, such as --auth.
	Args []string
	// Auth asks everybody for a password, the members of the set for a key among them. See ReplicaSet.RootURI and
	// URIAs.
	Auth bool
	// TLS has clients use TLS as well as plain connections, which this package uses. With TLS a client needs a
	// certificate. nil: plain connections alone.
	TLS *TLS
}

// TLS is what a mongod shows to clients, and whom it knows. Both are PEM.
type TLS struct {
	Identity    []byte // certificate and key of the server
	Authorities []byte // certificates that may have signed those of clients
}

// own says that these options need processes of one's own.
func (o Options) own() bool {
	return o.Own || o.Host != "" || o.Standalone || o.Arbiters > 0 || len(o.Args) > 0 || o.Auth || o.TLS != nil
}

func (o Options) nodes() int {
	if o.Nodes == 0 && !o.Standalone {
		return 3
	}
	return max(o.Nodes, 1)
}

// makeKey makes what the members of a set that asks for passwords know each other by.
func (o Options) makeKey() string {
	if !o.Auth {
		return ""
	}
	return rand.Text() + rand.Text()
}

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
	opened, err := testprocess.OpenAll(count, func(i int) (*testprocess.Server, error) {
		name := fmt.Sprintf("n%d", i)
		return testprocess.Open(ctx, "mongod "+name, &mongod{opts: rs.opts, key: key}, filepath.Join(dir, name),
			testprocess.Options{Host: rs.opts.Host})
	})
	for _, server := range opened {
		rs.nodes = append(rs.nodes, &Node{Server: server, rs: rs})
	}
	return err
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

// A Node is one mongod. Its methods may be called concurrently.
type Node struct {
	*testprocess.Server
	rs *ReplicaSet
}

// Restart kills the process, if it runs, and starts it again on the same data and port. It returns once it takes
// connections.
func (n *Node) Restart(ctx context.Context) error {
	n.Kill()
	return n.Start(ctx)
}

// family are the sets of this test process.
var family = &testprocess.Family{Suite: suites.Mongo}

// Shared returns the URI of the test process's own replica set of one node, with a fresh database in it. The database
// is dropped at the end of the test. The set is started when the first test asks for it.
func Shared(tb testing.TB) string {
	tb.Helper()
	return database(tb, SharedSet(tb, 1))
}

// SharedByThree is [Shared] of a set of three nodes, for what depends on replication.
func SharedByThree(tb testing.TB) string {
	tb.Helper()
	return database(tb, SharedSet(tb, 3))
}

// database is the URI of a fresh one, which is dropped at the end of the test.
func database(tb testing.TB, rs *ReplicaSet) string {
	tb.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:12])
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if client, err := rs.client(rs.URI()); err == nil {
			_ = client.Database(name).Drop(ctx) // a test may have stopped nodes; the set goes anyway
		}
	})
	return WithDatabase(rs.URI(), name)
}

// SharedSet returns the test process's own replica set of so many nodes, started when the first test asks for it. It
// fails the test when there is none. Tests that set fail points or stop nodes start a set of their own, or do not run
// in parallel with others.
func SharedSet(tb testing.TB, nodes int) *ReplicaSet {
	tb.Helper()
	return SharedAs(tb, fmt.Sprint("mongodb of ", nodes), Options{Nodes: nodes})
}

// SharedAs returns the test process's own MongoDB of a name, started with these options when the first test asks for
// it. It is for tests that want options that few others want, and that run one after the other.
func SharedAs(tb testing.TB, name string, opts Options) *ReplicaSet {
	tb.Helper()
	return testprocess.Shared(tb, family, name, func(ctx context.Context, dir string) (*ReplicaSet, error) {
		return open(ctx, dir, opts)
	})
}

// New starts a MongoDB for one test and stops it at the test's end. It fails the test when there is none.
func New(tb testing.TB, opts Options) *ReplicaSet {
	tb.Helper()
	return testprocess.Fresh(tb, family, "mongodb", func(ctx context.Context, dir string) (*ReplicaSet, error) {
		return open(ctx, dir, opts)
	})
}

// WithDatabase returns a MongoDB URI with its database set to name.
func WithDatabase(uri, name string) string {
	scheme, rest, _ := strings.Cut(uri, "://")
	rest, query, _ := strings.Cut(rest, "?")
	hosts, _, _ := strings.Cut(rest, "/")
	uri = scheme + "://" + hosts + "/" + name
	if query != "" {
		uri += "?" + query
	}
	return uri
}

//go:build unix

package testmongo

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// family are the sets of this test process. Without a MongoDB tests fail.
var family = &testprocess.Family{}

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
	name := fmt.Sprint("mongodb of ", nodes)
	return testprocess.Shared(tb, family, name, func(ctx context.Context, dir string) (*ReplicaSet, error) {
		return open(ctx, dir, Options{Nodes: nodes})
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

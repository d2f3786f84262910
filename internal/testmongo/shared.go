//go:build unix

package testmongo

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// family are the sets of this test process. Without a MongoDB tests fail.
var family = &testprocess.Family{}

// Shared returns the URI of the test process's own replica set, with a fresh database in it. The database is dropped at
// the end of the test. Tests that set fail points or stop nodes start a set of their own, or do not run in parallel
// with others.
func Shared(tb testing.TB) string {
	tb.Helper()
	rs := SharedSet(tb)
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

// SharedSet returns the test process's own replica set, started when the first test asks for it. It fails the test when
// there is none.
func SharedSet(tb testing.TB) *ReplicaSet {
	tb.Helper()
	return testprocess.Shared(tb, family, "mongodb", func(ctx context.Context, dir string) (*ReplicaSet, error) {
		return open(ctx, dir, Options{})
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

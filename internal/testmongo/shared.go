//go:build unix

package testmongo

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// startTimeout bounds the start of the shared set, a fetch of the server included.
const startTimeout = 10 * time.Minute

// shared is the one set of this test process, started by the first test that asks for it.
var shared struct {
	sync.Mutex
	started bool
	set     *ReplicaSet
	err     error
}

// Main runs a package's tests and then stops the shared set, if one was started; it returns the exit status. When tests
// have failed, it leaves the logs of the set and says where they are.
func Main(m *testing.M) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.set == nil {
		return code
	}
	if code != 0 && shared.set.external == "" {
		fmt.Fprintf(os.Stderr, "logs of mongod: %s%s\n", shared.set.LogDir(), shared.set.LogTail(5))
	}
	if err := shared.set.close(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "stop MongoDB:", err)
	}
	return code
}

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
	shared.Lock()
	defer shared.Unlock()
	if !shared.started {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		shared.started = true
		shared.set, shared.err = Start(ctx, Options{})
	}
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.set
}

// New starts a MongoDB for one test and stops it at the test's end. It fails the test when there is none.
func New(tb testing.TB, opts Options) *ReplicaSet {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	rs, err := Start(ctx, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Log(rs.LogTail(5))
		}
		if err := rs.Close(); err != nil {
			tb.Error(err)
		}
	})
	return rs
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

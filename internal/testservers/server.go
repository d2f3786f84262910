//go:build unix

package testservers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// databaseTimeout bounds [Server.Database].
const databaseTimeout = time.Minute

// family are the servers of this test process.
var family = &testprocess.Family{Variable: EnvRequired, Target: "make stores-short"}

// Proxy is a network between clients and one server: a TCP proxy that breaks or blocks.
type Proxy = testprocess.Proxy

// Server is a server of a test. Its methods fail the test on an error, and so are called in the test's goroutine.
type Server struct {
	*testprocess.Fixture
	tb testing.TB
}

// Start starts a server that ends with the test. Config lines follow ours in the server's own configuration file.
func Start(tb testing.TB, k Kind, config ...string) *Server {
	tb.Helper()
	return use(tb, testprocess.Fresh(tb, family, string(k),
		func(ctx context.Context, dir string) (*testprocess.Server, error) {
			return Open(ctx, k, dir, testprocess.Options{Config: config})
		}))
}

// Shared returns the test process's own server of a kind. A package that uses it has a TestMain with
// [testprocess.Main]. Who kills it starts it again, and does not run in parallel.
func Shared(tb testing.TB, k Kind) *Server {
	tb.Helper()
	return use(tb, testprocess.Shared(tb, family, string(k),
		func(ctx context.Context, dir string) (*testprocess.Server, error) {
			return Open(ctx, k, dir, testprocess.Options{})
		}))
}

// Need skips or fails a test that is to open a server of a kind by itself, where that cannot be had.
func Need(tb testing.TB, k Kind) {
	tb.Helper()
	family.Need(tb, string(k), func(ctx context.Context) error { return Provide(ctx, k) })
}

func use(tb testing.TB, server *testprocess.Server) *Server {
	tb.Helper()
	return &Server{Fixture: testprocess.NewFixture(tb, server), tb: tb}
}

// Database makes an empty database of its own, and returns its URI.
func (s *Server) Database() string {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.tb.Context()), databaseTimeout)
	defer cancel()
	uri, err := Database(ctx, s.Server())
	if err != nil {
		s.tb.Fatal(err)
	}
	return uri
}

// Via is a URI of this server, through a proxy in front of it.
func (s *Server) Via(link *Proxy, uri string) string {
	return strings.ReplaceAll(uri, s.Addr, link.Addr)
}

// Name is a name for a database, a user or a table that no other test uses: letters and digits, a letter first.
func Name() string { return testprocess.Name() }

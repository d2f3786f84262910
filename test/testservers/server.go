//go:build unix

package testservers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

// Kind is a kind of server.
type Kind string

// ErrMissing says that a server cannot be provided. Its text goes on with what to install.
var ErrMissing = testprocess.ErrMissing

// definition is what there is to know about a kind.
type definition struct {
	// software makes what runs one server on its own.
	software func() testprocess.Software
	// database makes an empty database in a server that serves clients, and returns its URI.
	database func(ctx context.Context, s *testprocess.Server) (uri string, err error)
}

var definitions = map[Kind]definition{}

// register is called by the file of each kind, before any test.
func register(k Kind, d definition) { definitions[k] = d }

// Kinds are all of them, in order of their names.
func Kinds() []Kind { return slices.Sorted(maps.Keys(definitions)) }

func (k Kind) definition() (definition, error) {
	d, found := definitions[k]
	if !found {
		return d, fmt.Errorf("no kind of server is called %q; there are %v", k, Kinds())
	}
	return d, nil
}

// Provide fetches what a kind needs, so that the first test need not wait for it. Its error wraps [ErrMissing] when
// something is to be installed.
func Provide(ctx context.Context, k Kind) error {
	d, err := k.definition()
	if err != nil {
		return err
	}
	return d.software().Provide(ctx)
}

// ProvideAll fetches what all kinds need, and poolers besides. It reports the name of each that is at hand, and returns
// the errors of all others.
func ProvideAll(ctx context.Context, report func(name string)) error {
	software := map[string]testprocess.Software{kindPgBouncer: &pgbouncer{}}
	for k, d := range definitions {
		software[string(k)] = d.software()
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(software)) {
		err := software[name].Provide(ctx)
		if err == nil {
			report(name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Open starts a server that keeps its data in dir, which is made when missing, and returns once it serves clients. ctx
// bounds the start only. Call Close at the end; dir stays.
func Open(ctx context.Context, k Kind, dir string, o testprocess.Options) (*testprocess.Server, error) {
	d, err := k.definition()
	if err != nil {
		return nil, err
	}
	return testprocess.Open(ctx, string(k), d.software(), dir, o)
}

// Database makes an empty database in a server that [Open] started, and returns its URI.
func Database(ctx context.Context, s *testprocess.Server) (uri string, err error) {
	d, err := Kind(s.Name()).definition()
	if err != nil {
		return "", err
	}
	if uri, err = d.database(ctx, s); err != nil {
		return "", fmt.Errorf("make a database in %s at %s: %w", s.Name(), s.Addr(), err)
	}
	return uri, nil
}

// databaseTimeout bounds [Server.Database].
const databaseTimeout = time.Minute

// family are the servers of this test process.
var family = &testprocess.Family{Suite: suites.Stores}

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

// servers are several that belong together.
type servers struct{ all []*testprocess.Server }

// add takes what was opened. An error closes those that were added before.
func (s *servers) add(opened *testprocess.Server, err error) (*testprocess.Server, error) {
	if err != nil {
		s.Close()
		return nil, err
	}
	s.all = append(s.all, opened)
	return opened, nil
}

// openServers opens servers that start at once. An error closes all.
func openServers(n int, open func(i int) (*testprocess.Server, error)) (*servers, error) {
	opened, err := testprocess.OpenAll(n, open)
	s := &servers{opened}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// use has a test use all of them.
func (s *servers) use(tb testing.TB) []*Server {
	tb.Helper()
	all := make([]*Server, len(s.all))
	for i, server := range s.all {
		all[i] = use(tb, server)
	}
	return all
}

// addrs are HOST:PORT of servers.
func addrs(all []*Server) []string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = s.Addr
	}
	return texts
}

// LogTail is the last lines of each.
func (s *servers) LogTail(lines int) string {
	var all strings.Builder
	for _, server := range s.all {
		all.WriteString(server.LogTail(lines))
	}
	return all.String()
}

// Close ends all for good.
func (s *servers) Close() {
	for _, server := range s.all {
		server.Close()
	}
}

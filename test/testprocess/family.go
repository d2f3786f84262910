//go:build unix

package testprocess

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/suites"
)

// provideTimeout bounds the start of a server, a fetch of its programs included.
const provideTimeout = 10 * time.Minute

// Family is kinds of servers that tests have or lack together. Make one of it with a pointer, for the whole process.
type Family struct {
	// Suite is where tests with a server of the family belong. Empty: they always run.
	Suite suites.Suite
}

// Handle is a server, or several that belong together.
type Handle interface {
	// LogTail is the last lines that it printed.
	LogTail(lines int) string
	// Close ends it for good.
	Close()
}

// skip skips a test that needs a real server of this name, unless its suite runs.
func (f *Family) skip(tb testing.TB, name string) {
	tb.Helper()
	if f.Suite != "" {
		suites.Need(tb, f.Suite, "a real "+name)
	}
}

// OpenAll opens so many servers at once, of which perhaps none is ready before others run. With an error it returns
// those that were opened.
func OpenAll(servers int, open func(i int) (*Server, error)) ([]*Server, error) {
	opened, errs := make([]*Server, servers), make([]error, servers)
	var opening sync.WaitGroup
	for i := range servers {
		opening.Go(func() { opened[i], errs[i] = open(i) })
	}
	opening.Wait()
	return slices.DeleteFunc(opened, func(s *Server) bool { return s == nil }), cmp.Or(errs...)
}

// Need skips or fails a test that needs what cannot be had: the error is that of provide.
func (f *Family) Need(tb testing.TB, name string, provide func(context.Context) error) {
	tb.Helper()
	f.skip(tb, name)
	ctx, cancel := context.WithTimeout(tb.Context(), provideTimeout)
	defer cancel()
	if err := provide(ctx); err != nil {
		f.Fail(tb, err)
	}
}

// NeedPrograms skips a test unless its suite runs and these programs are there. install is the command that brings them.
func NeedPrograms(tb testing.TB, s suites.Suite, install string, programs ...string) {
	tb.Helper()
	suites.Need(tb, s, strings.Join(programs, ", "))
	if err := LacksPrograms(install, programs...); err != nil {
		suites.Missing(tb, err)
	}
}

// LacksPrograms returns an error that names the first of these programs that is not in PATH.
func LacksPrograms(install string, programs ...string) error {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is not installed: %s", program, install)
		}
	}
	return nil
}

// Fail ends a test whose server cannot be had.
func (f *Family) Fail(tb testing.TB, err error) {
	tb.Helper()
	if f.Suite != "" && errors.Is(err, ErrMissing) {
		suites.Missing(tb, err)
	}
	tb.Fatal(err)
}

// Fresh is a server of a test, which ends with it. name is for the line that says why the test is skipped. The context
// that open gets bounds the start only.
func Fresh[H Handle](
	tb testing.TB, f *Family, name string, open func(ctx context.Context, dir string) (H, error),
) H {
	tb.Helper()
	f.skip(tb, name)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), provideTimeout)
	defer cancel()
	work, err := WorkDir("server")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := work.Close(false); err != nil {
			tb.Error(err)
		}
	})
	server, err := open(ctx, work.Data())
	if err != nil {
		f.Fail(tb, err)
	}
	tb.Cleanup(func() {
		logOnFailure(tb, server)
		server.Close()
	})
	return server
}

func logOnFailure(tb testing.TB, server Handle) {
	tb.Helper()
	if tb.Failed() {
		tb.Log(server.LogTail(20))
	}
}

// Name is a name for a topic, queue or database that no other test uses: letters and digits, beginning with a letter.
func Name() string { return "t" + strings.ToLower(rand.Text()[:12]) }

// shared are the servers that the tests of this process share, of all families.
var shared registry

type registry struct {
	mu      sync.Mutex
	running bool // in Main
	work    *Work
	started map[sharedName]result
}

type sharedName struct {
	family *Family
	name   string
}

type result struct {
	server Handle
	err    error
}

// Shared is the test process's own server of this name, started by the first test that asks for it. A package that uses
// it has a TestMain with [Main], and fails without. What tests make in it has names of their own: see [Name]. Who kills
// it starts it again, and does not run in parallel.
func Shared[H Handle](
	tb testing.TB, f *Family, name string, open func(ctx context.Context, dir string) (H, error),
) H {
	tb.Helper()
	f.skip(tb, name)
	server, err := shared.open(sharedName{f, name}, func(ctx context.Context, dir string) (Handle, error) {
		return open(ctx, dir)
	})
	if err != nil {
		f.Fail(tb, err)
	}
	tb.Cleanup(func() { logOnFailure(tb, server) })
	return server.(H) //nolint:forcetypeassert // one kind of server for each name
}

func (r *registry) open(id sharedName, open func(context.Context, string) (Handle, error)) (Handle, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.running {
		return nil, errors.New("shared servers need TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }, which ends them")
	}
	if r.work == nil {
		work, err := WorkDir("servers")
		if err != nil {
			return nil, err
		}
		r.work, r.started = work, map[sharedName]result{}
	}
	known, ok := r.started[id]
	if !ok {
		ctx, cancel := context.WithTimeout(context.Background(), provideTimeout)
		defer cancel()
		known.server, known.err = open(ctx, filepath.Join(r.work.Data(), fmt.Sprintf("%s%d", id.name, len(r.started))))
		r.started[id] = known
	}
	return known.server, known.err
}

// Main runs a package's tests and then ends the servers that they have shared. It returns the exit status. When tests
// have failed, it leaves the servers' logs and says where they are.
func Main(m *testing.M) int {
	shared.mu.Lock()
	shared.running = true
	shared.mu.Unlock()
	code := m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.running = false
	for _, s := range shared.started {
		if s.err == nil {
			s.server.Close()
		}
	}
	if shared.work == nil {
		return code
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "logs of the servers are in", shared.work.Data())
	}
	if err := shared.work.Close(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "remove the servers' data:", err)
		return max(code, 1)
	}
	return code
}

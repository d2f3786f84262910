//go:build unix

package testprocess

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
)

// What a family's variable may say.
const (
	none     = "none"
	required = "required"
)

// noneError is the name of a family's variable that says "none".
type noneError string

func (e noneError) Error() string { return string(e) + ` is "` + none + `"` }

// provideTimeout bounds the start of a server, a fetch of its programs included.
const provideTimeout = 10 * time.Minute

// Family is kinds of servers that tests have or lack together. Make one of it with a pointer, for the whole process.
type Family struct {
	// Variable is in the environment of tests. As "none" no server of the family is found, also where it is installed,
	// and tests that need one are skipped. As "required" it has those fail that lack theirs, instead of being skipped.
	// Empty: no test is skipped.
	Variable string
	// Target is where those tests run that "none" leaves out: make stores-short.
	Target string

	mu      sync.Mutex
	work    *Work
	servers map[string]Handle
	errs    map[string]error
}

// Handle is a server, or several that belong together.
type Handle interface {
	// LogTail is the last lines that it printed.
	LogTail(lines int) string
	// Close ends it for good.
	Close()
}

// Skip skips a test that needs a real server of this name and is to run without.
func (f *Family) Skip(tb testing.TB, name string) {
	tb.Helper()
	if f.Variable == "" {
		return
	}
	if testing.Short() {
		tb.Skipf("needs a real %s, which go test -short leaves out", name)
	}
	if f.none() {
		tb.Skipf("needs a real %s, which %s has", name, f.Target)
	}
}

func (f *Family) none() bool { return os.Getenv(f.Variable) == none }

// Provide finds the programs of one kind or fetches them: see [Software].
func (f *Family) Provide(ctx context.Context, kind string, s Software) error {
	if f.none() {
		return Missing(kind, "%w", noneError(f.Variable))
	}
	return s.Provide(ctx)
}

// Open is [Open] for a server of the family.
func (f *Family) Open(ctx context.Context, name string, s Software, dir string, o Options) (*Server, error) {
	if err := f.Provide(ctx, name, s); err != nil {
		return nil, err
	}
	return open(ctx, name, s, dir, o)
}

// Need skips or fails a test that needs what cannot be had: the error is that of provide.
func (f *Family) Need(tb testing.TB, name string, provide func(context.Context) error) {
	tb.Helper()
	f.Skip(tb, name)
	ctx, cancel := context.WithTimeout(tb.Context(), provideTimeout)
	defer cancel()
	if err := provide(ctx); err != nil {
		f.Fail(tb, err)
	}
}

// Fail ends a test whose server cannot be had.
func (f *Family) Fail(tb testing.TB, err error) {
	tb.Helper()
	if f.Variable != "" && errors.Is(err, ErrMissing) && os.Getenv(f.Variable) != required {
		tb.Skip(err)
	}
	tb.Fatal(err)
}

// Fresh is a server of a test, which ends with it. name is for the line that says why the test is skipped. The context
// that open gets bounds the start only.
func Fresh[H Handle](
	tb testing.TB, f *Family, name string, open func(ctx context.Context, dir string) (H, error),
) H {
	tb.Helper()
	f.Skip(tb, name)
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

// Shared is the test process's own server of this name, started by the first test that asks for it. A package that uses
// it has a TestMain with [Family.Main]. What tests make in it has names of their own: see [Name]. Who kills it starts
// it again, and does not run in parallel.
func Shared[H Handle](
	tb testing.TB, f *Family, name string, open func(ctx context.Context, dir string) (H, error),
) H {
	tb.Helper()
	f.Skip(tb, name)
	server, err := f.shared(name, func(ctx context.Context, dir string) (Handle, error) { return open(ctx, dir) })
	if err != nil {
		f.Fail(tb, err)
	}
	tb.Cleanup(func() { logOnFailure(tb, server) })
	return server.(H) //nolint:forcetypeassert // one kind of server for each name
}

func (f *Family) shared(name string, open func(context.Context, string) (Handle, error)) (_ Handle, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.servers[name] != nil || f.errs[name] != nil {
		return f.servers[name], f.errs[name]
	}
	if f.servers == nil {
		f.servers, f.errs = map[string]Handle{}, map[string]error{}
		if f.work, err = WorkDir("servers"); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), provideTimeout)
	defer cancel()
	server, err := open(ctx, filepath.Join(f.work.Data(), name))
	if err != nil {
		f.errs[name] = err
		return nil, err
	}
	f.servers[name] = server
	return server, nil
}

// Main runs a package's tests and then ends the shared servers. It returns the exit status. When tests have failed, it
// leaves the servers' logs and says where they are.
func (f *Family) Main(m *testing.M) int {
	code := m.Run()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, server := range f.servers {
		server.Close()
	}
	if f.work == nil {
		return code
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "logs of the servers are in", f.work.Data())
	}
	if err := f.work.Close(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "remove the servers' data:", err)
		return max(code, 1)
	}
	return code
}

func logOnFailure(tb testing.TB, server Handle) {
	tb.Helper()
	if tb.Failed() {
		tb.Log(server.LogTail(20))
	}
}

// Name is a name for a topic, queue or database that no other test uses: letters and digits, beginning with a letter.
func Name() string { return "t" + strings.ToLower(rand.Text()[:12]) }

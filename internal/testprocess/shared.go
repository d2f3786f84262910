//go:build unix

package testprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

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
	f.Skip(tb, name)
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

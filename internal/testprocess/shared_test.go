//go:build linux

package testprocess_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/testprocess"
)

// TestShares is the test of another process, below.
func TestShares(t *testing.T) {
	if os.Getenv(role) == "" {
		t.Skip("needs another test, which starts it")
	}
	// They inherit the variable otherwise.
	t.Setenv(role, "")
	one, two := &testprocess.Family{}, &testprocess.Family{}
	share := func(f *testprocess.Family) *testprocess.Server {
		return testprocess.Shared(t, f, "greeter", func(ctx context.Context, dir string) (*testprocess.Server, error) {
			return testprocess.Open(ctx, "greeter", &greeter{}, dir, testprocess.Options{})
		})
	}
	first := share(one)
	if share(one) != first || share(two) == first {
		t.Error("a family has one server of a name")
	}
	t.Log("below is", below(t, first), below(t, share(two)))
}

// shares runs TestShares in another process, whose temporary files are in dir.
func shares(t *testing.T, as, dir string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestShares$", "-test.v")
	cmd.Env = append(os.Environ(), role+"="+as, "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Servers of several families end with the tests that share them, and nothing of them stays.
func TestSharedServersEnd(t *testing.T) {
	dir := t.TempDir()
	out, err := shares(t, "shares", dir)
	check(t, out, err)
	files, err := os.ReadDir(dir)
	check(t, "look at temporary files", err)
	if len(files) > 0 {
		t.Error(files, "have stayed")
	}
	processes, err := process.All()
	check(t, "look at processes", err)
	for _, p := range processes {
		if process.Environ(p.PID, "TMPDIR")[0] == dir {
			t.Error(p.PID, "has stayed")
		}
	}
}

// A package that would leave them behind is told at its first test.
func TestSharedServersNeedMain(t *testing.T) {
	out, err := shares(t, "careless", t.TempDir())
	if err == nil || !strings.Contains(out, "testprocess.Main") {
		t.Error(err, out)
	}
}

//go:build unix

// Package backup_test runs the backup under a lock.
package backup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/test/suites"
)

// Backups that are started at once copy one after the other, each under a larger token than the one before.
func TestBackupsAtOnce(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	dir := t.TempDir()
	program, from, to := filepath.Join(dir, "shardctl"), filepath.Join(dir, "from"), filepath.Join(dir, "to")
	run(t, "go", "build", "-o", program, "../../cmd/shardctl")
	if err := os.Mkdir(from, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "accounts"), []byte("1, 2, 3"), 0o600); err != nil {
		t.Fatal(err)
	}
	const runs = 3
	var all errgroup.Group
	said := make([]string, runs)
	for i := range runs {
		all.Go(func() error {
			out, err := exec.CommandContext(t.Context(), program, "lock", "backup", "--store",
				"sqlite:"+filepath.Join(dir, "store.db"), "--", "./backup.sh", from, to).CombinedOutput()
			said[i] = string(out)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatalf("%v: %q", err, said)
	}
	copies, err := filepath.Glob(filepath.Join(to, "[1-9]*", "accounts"))
	if err != nil || len(copies) != runs {
		t.Fatalf("%q, %v, want %d copies: %q", copies, err, runs, said)
	}
	last := slices.Max(tokens(t, copies))
	if latest, err := os.Readlink(filepath.Join(to, "latest")); err != nil || latest != strconv.FormatInt(last, 10) {
		t.Errorf("the latest is %s (%v), want %d", latest, err, last)
	}
	late := exec.CommandContext(t.Context(), "./backup.sh", from, to)
	late.Env = append(os.Environ(), "SHARDCTL_FENCING_TOKEN=7")
	if out, err := late.CombinedOutput(); err == nil || !strings.Contains(string(out), "run 7 is older") {
		t.Errorf("a run that lost its lock: %v, %s", err, out)
	}
}

func tokens(t *testing.T, copies []string) []int64 {
	t.Helper()
	list := make([]int64, len(copies))
	for i, path := range copies {
		var err error
		if list[i], err = strconv.ParseInt(filepath.Base(filepath.Dir(path)), 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

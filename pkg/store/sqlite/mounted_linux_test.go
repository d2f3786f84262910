package sqlite_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/suites"
)

// A file that is mounted by itself, as into a container, is refused: its log would stay behind.
func TestMountedAlone(t *testing.T) {
	suites.Need(t, suites.Processes, "a mount")
	if os.Getuid() != 0 {
		t.Skip("only root mounts")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"store.db", "mounted.db"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const script = `mount --bind "$0/store.db" "$0/mounted.db" && exec "$1"`
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", script, dir, self)
	cmd.Env = append(os.Environ(), childEnv+"="+filepath.Join(dir, "mounted.db"))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "mounted by itself") {
		t.Errorf("%v: %s", err, out)
	}
}

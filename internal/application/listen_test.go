package application

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ownDir is a directory that its owner alone may write to, whatever the umask.
func ownDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestASocketIsForItsUserAlone(t *testing.T) {
	path := filepath.Join(ownDir(t), "app.sock")
	l, err := Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if _, err := Listen(t.Context(), "unix:"+path); err == nil || !strings.Contains(err.Error(), "listens at") {
		t.Errorf("a second one at the same path: %v", err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the first one is not reached any more: %v", err)
	}
	_ = conn.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it is left behind")
	}
}

func TestAStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(ownDir(t), "app.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false) // as a process that was killed
	_ = stale.Close()
	l, err := Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestWhatIsNoSocketStays(t *testing.T) {
	path := filepath.Join(ownDir(t), "app.sock")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "unix:"+path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("got %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "x" {
		t.Errorf("it holds %q now", text)
	}
}

// Whoever listens first in a directory would be taken for the replica, so others must not write to it. The sticky bit
// only keeps them from removing what is there.
func TestADirectoryThatOthersMayWriteToIsRefused(t *testing.T) {
	dir := ownDir(t)
	for mode, allowed := range map[os.FileMode]bool{
		0o777: false, 0o777 | os.ModeSticky: false, 0o775: false, 0o722: false, 0o755: true, 0o700: true,
	} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		l, err := Listen(t.Context(), "unix:"+filepath.Join(dir, "app.sock"))
		if (err == nil) != allowed || err != nil && !strings.Contains(err.Error(), dir+" has mode ") {
			t.Errorf("mode %v: %v", mode, err)
		}
		if err == nil {
			_ = l.Close()
		}
	}
}

func TestADirectoryOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a directory away")
	}
	dir := ownDir(t)
	if err := os.Chown(dir, 65533, -1); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(t.Context(), "unix:"+filepath.Join(dir, "app.sock"))
	if err == nil {
		_ = l.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "belongs to user 65533: must belong to user 0") {
		t.Errorf("got %v", err)
	}
}

// An emptyDir of Kubernetes is writable by all, so the socket stands in a directory of its own there.
func TestTheDirectoryOfASocketIsMade(t *testing.T) {
	volume := ownDir(t)
	if err := os.Chmod(volume, 0o777); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(volume, "socket")
	for range 2 { // a restarted container finds it
		l, err := Listen(t.Context(), "unix:"+filepath.Join(dir, "app.sock"))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the directory: %v, %v", info, err)
		}
	}
	if _, err := Listen(t.Context(), "unix:"+filepath.Join(volume, "a", "b", "app.sock")); !os.IsNotExist(err) {
		t.Errorf("without a parent: %v", err)
	}
}

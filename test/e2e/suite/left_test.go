//go:build linux

package suite

import (
	"crypto/rand"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestLeftBehind(t *testing.T) {
	mark := rand.Text()
	t.Setenv(markEnv, mark)
	if left := leftBehind(mark, 0); len(left) > 0 {
		t.Fatalf("found %v before anything was started", left)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	cmd.Env = append(os.Environ(), "OTHER=variables")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	left := leftBehind(mark, 0)
	if len(left) != 1 || left[0].PID != cmd.Process.Pid {
		t.Errorf("found %v, want process %d", left, cmd.Process.Pid)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if left := leftBehind(mark, time.Minute); len(left) > 0 {
		t.Errorf("found %v after the end", left)
	}
}

//go:build linux

package testmongo

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKilledTestLeavesNoMongod starts itself as a child that starts a mongod, and kills the child.
func TestKilledTestLeavesNoMongod(t *testing.T) {
	if os.Getenv("TESTMONGO_CHILD") != "" {
		rs := New(t, Options{Standalone: true})
		_, _ = os.Stdout.WriteString("pid " + strconv.Itoa(rs.Nodes()[0].PID()) + "\n")
		select {} // until killed
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledTestLeavesNoMongod$")
	cmd.Env = append(os.Environ(), "TESTMONGO_CHILD=1", "TMPDIR="+t.TempDir()) // what it leaves goes with this test
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "pid "); ok {
			pid, _ = strconv.Atoi(text)
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if pid == 0 {
		t.Fatal("the child reported no pid")
	}
	for end := time.Now().Add(10 * time.Second); alive(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("mongod %d outlives the test that started it", pid)
		}
	}
}

// alive does not count zombies: in a container there may be no process that reaps them.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

//go:build linux

package testbroker_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testbroker"
)

// TestKilledTestLeavesNoBroker starts itself as a child that starts a RabbitMQ, which is more than one process, and
// kills the child.
func TestKilledTestLeavesNoBroker(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	if os.Getenv("TESTBROKER_CHILD") != "" {
		_, _ = fmt.Println("port " + testbroker.RabbitMQ(t).Addr) //nolint:forbidigo // for its parent
		select {}                                                 // until killed
	}
	testbroker.Need(t, testbroker.KindRabbitMQ)
	dir := t.TempDir() // what the child leaves goes with this test
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledTestLeavesNoBroker$")
	cmd.Env = append(os.Environ(), "TESTBROKER_CHILD=1", "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	check(t, "pipe", err)
	check(t, "start", cmd.Start())
	started := false
	for lines := bufio.NewScanner(out); !started && lines.Scan(); {
		started = strings.HasPrefix(lines.Text(), "port ")
	}
	before := processes(t, dir)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if !started || len(before) < 2 {
		t.Fatalf("the child started: %v, with processes %v", started, before)
	}
	for end := time.Now().Add(20 * time.Second); len(processes(t, dir)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("processes %v outlive the test that started them", processes(t, dir))
		}
	}
}

// processes are those that work in a directory. A zombie works nowhere.
func processes(t *testing.T, dir string) (pids []int) {
	t.Helper()
	all, err := os.ReadDir("/proc")
	check(t, "read /proc", err)
	for _, p := range all {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		if cwd, err := os.Readlink("/proc/" + p.Name() + "/cwd"); err == nil && strings.HasPrefix(cwd, dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

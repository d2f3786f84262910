//go:build linux

package testprocess_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/testprocess"
)

func TestKilledTestLeavesNoServer(t *testing.T) {
	t.Chdir(t.TempDir()) // what the child leaves goes with this test
	child := testprocess.StartAgain(t, role+"=parent")
	var server, below int
	_, err := fmt.Sscan(child.Line(t), &server, &below)
	check(t, "read the processes", err)
	var seen []process.Proc
	for _, pid := range []int{server, below} {
		p, found := process.Read(pid)
		if !found {
			t.Fatalf("process %d is gone already", pid)
		}
		seen = append(seen, p)
	}
	child.Kill()
	for _, p := range seen {
		for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
			if now, found := process.Read(p.PID); !found || now.Start != p.Start || now.Zombie {
				break
			}
			if time.Now().After(end) {
				p.Signal(syscall.SIGKILL)
				t.Fatalf("process %d outlives the test that started it", p.PID)
			}
		}
	}
}

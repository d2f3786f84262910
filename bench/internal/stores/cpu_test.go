//go:build linux

package stores

import (
	"os"
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	pid, parent, used, err := parseStat("7 (a) b) S 3 7 7 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 5 6 7")
	if err != nil || pid != 7 || parent != 3 || used != time.Second {
		t.Fatalf("got %d, %d, %v, %v", pid, parent, used, err)
	}
	if _, _, _, err := parseStat("7 (a"); err == nil {
		t.Fatal("half a line is one")
	}
	for begin := time.Now(); time.Since(begin) < 50*time.Millisecond; { // uses the processor
	}
	mine, err := usage([]int{os.Getpid()})
	if err != nil || mine == 0 {
		t.Fatalf("got %v, %v", mine, err)
	}
	if all, err := usage([]int{os.Getppid()}); err != nil || all < mine {
		t.Fatalf("the parent's %v, %v are less than its child's %v", all, err, mine)
	}
	if none, err := usage(nil); err != nil || none != 0 {
		t.Fatalf("nobody's: %v, %v", none, err)
	}
}

//go:build linux

package suite

import (
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/test/testprocess"
)

const (
	// markEnv is in the environment of all that a test process starts, servers included.
	markEnv = "SHARDCTL_E2E_RUN"
	// endingPatience is how long processes may take that are ending by themselves.
	endingPatience = 30 * time.Second
)

// Main runs a package's tests and then ends the servers that they have shared. A process that is left behind fails the
// package, and is ended; end is called before. It returns the exit status.
func Main(m *testing.M, end ...func()) int {
	mark := rand.Text()
	if err := os.Setenv(markEnv, mark); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := testprocess.Main(m)
	for _, do := range end {
		do()
	}
	for _, p := range leftBehind(mark, endingPatience) {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)) // it may have ended
		fmt.Fprintf(os.Stderr, "left behind: process %d, %s\n", p.PID, strings.ReplaceAll(string(command), "\x00", " "))
		_ = p.Signal(syscall.SIGKILL)
		code = max(code, 1)
	}
	return code
}

// leftBehind returns the living processes with a mark, but for this one, once there is none or the time is over.
func leftBehind(mark string, patience time.Duration) []process.Proc {
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) { // nothing reports their end
		all, err := process.All()
		left := slices.DeleteFunc(all, func(p process.Proc) bool {
			return p.Zombie || p.PID == os.Getpid() || process.Environ(p.PID, markEnv)[0] != mark
		})
		if err != nil || len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

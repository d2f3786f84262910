//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/testprocess"
)

// endingPatience is how long processes may take that are ending by themselves.
const endingPatience = 5 * time.Second

// leftovers ends the processes with a run's mark, and returns them and the files in its directory, a line each. What a
// failed test has kept is none: its second attempt may have passed.
func leftovers(mark, dir string) []string {
	var found []string
	for end := time.Now().Add(endingPatience); ; {
		left := marked(mark)
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			for _, p := range left {
				found = append(found, fmt.Sprintf("process %d, %s", p.PID, commandLine(p.PID)))
				p.Signal(unix.SIGKILL)
			}
			break
		}
		time.Sleep(100 * time.Millisecond) // processes of others: nothing reports their end
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		found = append(found, err.Error())
	}
	for _, f := range files {
		if testprocess.Kept(filepath.Join(dir, f.Name())) {
			continue
		}
		found = append(found, "file "+f.Name())
	}
	return found
}

// marked are the living processes of a run, but for this one.
func marked(mark string) []process.Proc {
	all, err := process.All()
	if err != nil {
		return nil // no /proc: nothing can be said
	}
	return slices.DeleteFunc(all, func(p process.Proc) bool {
		return p.Zombie || p.PID == os.Getpid() || process.Environ(p.PID, markEnv)[0] != mark
	})
}

func commandLine(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " "))
}

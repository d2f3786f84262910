//go:build linux

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/testprocess"
)

const (
	assigned      = 10 // keys of the applications
	assignedGroup = "assigned"
)

// applications are what replicas start beside themselves, each a process that runs the keys assigned to it.
type applications struct {
	command []string // empty: Python is not installed, and there are none
	sockets string   // a directory; the path of a socket is short
}

// newApplications finds the program. Without Python there are none.
func newApplications(tb testing.TB) applications {
	tb.Helper()
	if err := testprocess.LacksPrograms("make clients-install", "python3"); err != nil {
		tb.Log("without applications:", err)
		return applications{}
	}
	program, err := filepath.Abs("../recorder/application.py")
	if err != nil {
		tb.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "shardctl-app-") //nolint:usetesting // paths of sockets are short
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(sockets); err != nil {
			tb.Error(err)
		}
	})
	// What is released before its function has ended shows as two runs.
	command := []string{"python3", program, "--group", assignedGroup, "--linger", "0.1"}
	return applications{command: command, sockets: sockets}
}

// keys are what the applications run.
func (a applications) keys() []string {
	if len(a.command) == 0 {
		return nil
	}
	var keys []string
	for i := range assigned {
		keys = append(keys, fmt.Sprintf("%s/item-%02d", assignedGroup, i+1))
	}
	return keys
}

// configure has a replica start an application, and declares the keys.
func (a applications) configure(name string, config object, groups []object) {
	if len(a.command) > 0 {
		config["app"] = object{"listen": "unix:" + filepath.Join(a.sockets, name), "command": a.command}
		groups = append(groups, object{
			"name":  assignedGroup,
			"tasks": []object{{"name": fmt.Sprintf("item-{01..%02d}", assigned), "assign": object{}}},
		})
	}
	config["groups"] = groups
}

// applicationOf is the process of a replica's application, if it runs.
func applicationOf(r *harness.Replica) (harness.Proc, bool) {
	for _, proc := range r.TaskProcs() {
		if process.Environ(proc.PID, "SHARDCTL_KEY")[0] == "~application" {
			return proc, true
		}
	}
	return harness.Proc{}, false
}

// hitApplication sends a signal to the application of a replica, which must go on without it.
func (s *trial) hitApplication(p *slot, sig syscall.Signal) {
	p.application = harness.Proc{}
	if !p.running() {
		s.line.Note("        %s is not there", p.name)
		return
	}
	proc, runs := applicationOf(p.replica)
	if !runs {
		s.line.Note("        %s has no application", p.name)
		return
	}
	if err := proc.Signal(sig); err != nil {
		s.line.Note("        %v", err)
	}
	p.application = proc
}

// thawApplication has a frozen application go on, unless it was killed in time.
func (s *trial) thawApplication(p *slot) {
	if p.application.Signal(syscall.SIGCONT) != nil {
		s.line.Note("        %s: it has ended", p.name)
	}
}

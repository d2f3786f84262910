//go:build linux

package harness

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/shardctl/shardctl/internal/process"
)

// Proc names one process for ever: a PID may be used again, with its start time it is not.
type Proc struct{ process.ID }

// Alive says whether it still exists and is not a zombie.
func (p Proc) Alive() bool {
	now, ok := process.Read(p.PID)
	return ok && now.ID() == p.ID && !now.Zombie
}

// Signal sends it a signal; it is an error when it is gone.
func (p Proc) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return fmt.Errorf("process %d: %w", p.PID, os.ErrProcessDone)
	}
	return syscall.Kill(p.PID, sig)
}

// procOf names the process that has this PID now.
func procOf(pid int) (Proc, error) {
	p, ok := process.Read(pid)
	if !ok {
		return Proc{}, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	return Proc{p.ID()}, nil
}

// children are the living children of a process, the oldest first.
func children(pid int) []Proc {
	found := living(func(p process.Proc) bool { return p.Parent == pid })
	slices.SortFunc(found, func(a, b Proc) int { return cmp.Compare(a.Start, b.Start) })
	return found
}

// withEnv are the living processes that were started with this variable in their environment.
func withEnv(name, value string) []Proc {
	return living(func(p process.Proc) bool { return process.Environ(p.PID, name)[0] == value })
}

// living are the processes of which that is so.
func living(so func(process.Proc) bool) []Proc {
	var found []Proc
	all, _ := process.All() // there is /proc
	for _, p := range all {
		if !p.Zombie && so(p) {
			found = append(found, Proc{p.ID()})
		}
	}
	return found
}

// program is the file that a process runs, empty when it is not known.
func (p Proc) program() string {
	path, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(p.PID), "exe"))
	return path
}

// Memory is what a process holds of memory, in bytes.
func (p Proc) Memory() (int64, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("process %d: no VmRSS, it has ended", p.PID)
}

// TaskTree are all processes of its tasks, also those that left their process group: everything below the guard but the
// worker.
func (r *Replica) TaskTree() ([]Proc, error) {
	worker, err := r.WorkerProc()
	if err != nil {
		return nil, err
	}
	all, err := process.All()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(p process.Proc) bool { return p.Zombie || p.PID == worker.PID })
	var tree []Proc
	for _, p := range process.TreeOf(all).Below(process.Proc{PID: r.guard.PID})[1:] {
		tree = append(tree, Proc{p.ID()})
	}
	return tree, nil
}

// thread starts all processes. It stays, so that they are killed when the test process dies, however that dies.
var thread = process.NewThread()

// spawn starts a process as a group of its own that is killed when the test process dies.
func spawn(cmd *exec.Cmd) error { return spawnWith(cmd, process.OwnGroup()) }

// spawnWith is spawn for a process that is no group of its own.
func spawnWith(cmd *exec.Cmd, attr *syscall.SysProcAttr) error {
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = attr
	return thread.Start(cmd)
}

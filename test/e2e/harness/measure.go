//go:build linux

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/process"
)

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

//go:build linux

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	below := map[int][]Proc{}
	eachProcess(func(p Proc, s stat) {
		if s.state != 'Z' {
			below[s.parent] = append(below[s.parent], p)
		}
	})
	var tree []Proc
	for queue := []int{r.guard.PID}; len(queue) > 0; queue = queue[1:] {
		for _, p := range below[queue[0]] {
			if p.PID != worker.PID {
				tree = append(tree, p)
				queue = append(queue, p.PID)
			}
		}
	}
	return tree, nil
}

//go:build linux

package lab

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// PSS is the proportional set size of processes together, in bytes: pages that n processes share count 1/n.
func PSS(pids ...int) (sum int64, err error) {
	for _, pid := range pids {
		size, err := pss(pid)
		if err != nil {
			return 0, err
		}
		sum += size
	}
	return sum, nil
}

func pss(pid int) (int64, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // only read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s: no Pss", file.Name())
}

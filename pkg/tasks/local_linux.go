package tasks

import (
	"os"
	"strconv"
	"syscall"
)

// groupOfItsOwn makes a child a process group of its own, killed when the thread that started it ends.
func groupOfItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// onlyZombies says whether every process of the group is dead and waits to be reaped. False when that cannot be seen.
func onlyZombies(pgid int) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	seen := false
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it has ended meanwhile
		}
		state, group, ok := parseStat(stat)
		if !ok {
			return false
		}
		if group != pgid {
			continue
		}
		if state != 'Z' && state != 'X' {
			return false
		}
		seen = true
	}
	return seen
}

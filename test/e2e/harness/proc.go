//go:build linux

package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Proc names one process for ever: a PID may be used again, with its start time it is not.
type Proc struct {
	PID     int
	started uint64 // in clock ticks since boot
}

// Alive says whether it still exists and is not a zombie.
func (p Proc) Alive() bool {
	s, err := readStat(p.PID)
	return err == nil && s.started == p.started && s.state != 'Z' && s.state != 'X'
}

// Signal sends it a signal; it is an error when it is gone.
func (p Proc) Signal(sig syscall.Signal) error {
	if !p.Alive() {
		return fmt.Errorf("process %d: %w", p.PID, os.ErrProcessDone)
	}
	return syscall.Kill(p.PID, sig)
}

type stat struct {
	parent  int
	state   byte
	started uint64
}

// readStat reads /proc/PID/stat. The name of the program stands in parentheses and may hold anything.
func readStat(pid int) (stat, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return stat{}, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	const state, parent, started = 0, 1, 19 // after the name
	if len(fields) <= started {
		return stat{}, errors.New("short stat")
	}
	s := stat{state: fields[state][0]}
	if s.parent, err = strconv.Atoi(fields[parent]); err != nil {
		return stat{}, err
	}
	s.started, err = strconv.ParseUint(fields[started], 10, 64)
	return s, err
}

// procOf names the process that has this PID now.
func procOf(pid int) (Proc, error) {
	s, err := readStat(pid)
	return Proc{PID: pid, started: s.started}, err
}

// children are the living children of a process, the oldest first.
func children(pid int) []Proc {
	var found []Proc
	eachProcess(func(p Proc, s stat) {
		if s.parent == pid && s.state != 'Z' {
			found = append(found, p)
		}
	})
	slices.SortFunc(found, func(a, b Proc) int { return int(a.started) - int(b.started) })
	return found
}

// withEnv are the living processes whose environment holds NAME=value as they were started.
func withEnv(entry string) []Proc {
	var found []Proc
	eachProcess(func(p Proc, _ stat) {
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID), "environ"))
		if err == nil && slices.Contains(strings.Split(string(env), "\x00"), entry) {
			found = append(found, p)
		}
	})
	return found
}

func eachProcess(visit func(Proc, stat)) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil {
			visit(Proc{PID: pid, started: s.started}, s)
		}
	}
}

// program is the file that a process runs, empty when it cannot be told.
func (p Proc) program() string {
	path, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(p.PID), "exe"))
	return path
}

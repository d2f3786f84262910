package dev

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// firstChildren gives for each process the one of its children that was started first. A guard starts its worker before
// any task. (A thread's list of children in /proc would be shorter to read, but not every kernel has it.)
func firstChildren() map[int]int {
	first, since := map[int]int{}, map[int]uint64{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, path := range stats {
		content, err := os.ReadFile(path) //nolint:gosec // G304: from /proc
		if err != nil {
			continue // ended meanwhile
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		parent, started, ok := parseStat(content)
		if !ok {
			continue
		}
		if known, found := since[parent]; !found || started < known || started == known && pid < first[parent] {
			first[parent], since[parent] = pid, started
		}
	}
	return first
}

// parseStat reads the parent and the start time, in ticks since boot, from /proc/PID/stat. A name in brackets may hold
// anything, so the fields count from the last bracket.
func parseStat(content []byte) (parent int, started uint64, ok bool) {
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(fields) < 20 {
		return 0, 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0, 0, false
	}
	started, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return parent, started, err == nil
}

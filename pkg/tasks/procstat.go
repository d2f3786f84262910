package tasks

import (
	"bytes"
	"strconv"
)

// parseStat reads state and process group from /proc/PID/stat: "PID (NAME) STATE PPID PGRP …", where NAME may hold
// anything, brackets too.
func parseStat(stat []byte) (state byte, pgrp int, ok bool) {
	_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	fields := bytes.Fields(rest)
	if len(fields) < 3 || len(fields[0]) != 1 {
		return 0, 0, false
	}
	pgrp, err := strconv.Atoi(string(fields[2]))
	return fields[0][0], pgrp, err == nil
}

package guard

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// canSurvey says that whatever a command leaves behind can be found.
const canSurvey = true

// The variables that mark a task's processes; whoever builds a command's environment sets them.
const (
	envKey     = "SHARDCTL_KEY"
	envSession = "SHARDCTL_SESSION"
)

// becomeSubreaper makes orphans below this process its children.
func becomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of orphans: %w", err)
	}
	return nil
}

// look surveys all processes.
//
// It is sound for "nothing is left" when the guard reaped nobody meanwhile: a child of the guard that was there at the
// beginning is then there at the end, if only as a zombie, and a process that was forked meanwhile has such a child above
// it, or had one that was reaped.
func (s suspects) look() survey {
	procs, err := listProcs()
	if err != nil {
		return survey{err: err}
	}
	return s.sort(procs, marksOf)
}

func listProcs() ([]proc, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	procs := make([]proc, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProc(pid); ok {
			procs = append(procs, p)
		}
	}
	return procs, nil
}

func readProc(pid int) (proc, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false // it has ended
	}
	return parseStat(pid, text)
}

// parseStat reads /proc/PID/stat. The name in it may hold blanks and parentheses; it ends at the last one.
func parseStat(pid int, text []byte) (proc, bool) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return proc{}, false
	}
	f := bytes.Fields(text[end+1:]) // state ppid pgrp …, starttime is the twentieth
	if len(f) < 20 {
		return proc{}, false
	}
	ppid, err1 := strconv.Atoi(string(f[1]))
	group, err2 := strconv.Atoi(string(f[2]))
	start, err3 := strconv.ParseUint(string(f[19]), 10, 64)
	if errors.Join(err1, err2, err3) != nil {
		return proc{}, false
	}
	return proc{pid: pid, ppid: ppid, group: group, start: start, zombie: f[0][0] == 'Z' || f[0][0] == 'X'}, true
}

// marksOf reads what a process carries in its environment; false: it carries nothing, or hides it.
func marksOf(pid int) (marks, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return marks{}, false
	}
	var m marks
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(envKey+"=")); ok {
			m.key = string(value)
		}
		if value, ok := bytes.CutPrefix(entry, []byte(envSession+"=")); ok {
			m.session = string(value)
		}
	}
	return m, m.key != "" && m.session != ""
}

// signal signals exactly the process that was seen: a process id can be another's by now, a pidfd checked against the
// start time cannot.
func (p proc) signal(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.3
		if now, ok := readProc(p.pid); ok && now.start == p.start {
			_ = unix.Kill(p.pid, sig)
		}
		return
	}
	if err != nil {
		return // it has ended
	}
	defer func() { _ = unix.Close(fd) }()
	if now, ok := readProc(p.pid); ok && now.start == p.start {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // fails when it has ended
	}
}

// killFound kills the victims that this process can find and everything below them, again and again until none is found
// or the time is over.
func killFound(v victims, until protocol.Instant) {
	for {
		found := v.find()
		for _, p := range found {
			p.signal(unix.SIGKILL)
		}
		if len(found) == 0 || reached(until, Now()) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (v victims) find() []proc {
	procs, err := listProcs()
	if err != nil {
		return nil
	}
	below := map[int][]proc{}
	for _, p := range procs {
		below[p.ppid] = append(below[p.ppid], p)
	}
	self := os.Getpid()
	var found []proc
	taken := map[int]bool{}
	for _, p := range procs {
		if p.zombie || p.pid == self || !v.match(p) {
			continue
		}
		for _, q := range subtree(p, below) {
			if q.pid != self && !taken[q.pid] {
				taken[q.pid] = true
				found = append(found, q)
			}
		}
	}
	return found
}

func (v victims) match(p proc) bool {
	if v.groups[p.group] {
		return true
	}
	m, ok := marksOf(p.pid)
	return ok && v.sessions[m.session]
}

package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CanFind says that whatever a command leaves behind can be found here.
const CanFind = true

// OwnGroup makes a child a process group of its own, killed when the thread that started it ends: see [Thread].
func OwnGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startIn starts a child straight in a control group.
func startIn(attr *syscall.SysProcAttr, cgroup *os.File) {
	attr.UseCgroupFD, attr.CgroupFD = true, int(cgroup.Fd())
}

// Self is the path of this very program, also when its file was replaced.
func Self() (string, error) { return "/proc/self/exe", nil }

// ReleaseProgramPages unmaps the read-only pages of this program's file. A page that is used again is mapped again from
// the page cache. Without it, what only the start used counts as memory of the process until its end. Mappings with
// pages of their own stay: a dynamic linker has written there before it made them read-only.
func ReleaseProgramPages() {
	self, err1 := os.Readlink("/proc/self/exe")
	text, err2 := os.ReadFile("/proc/self/smaps")
	if errors.Join(err1, err2) != nil {
		return
	}
	var begin, end uint64 // of the mapping that the lines are of
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case !strings.HasSuffix(f[0], ":"): // addresses, permissions, offset, device, inode, path
			begin, end = 0, 0
			if strings.Join(f[min(5, len(f)):], " ") == self && f[1][1] == '-' {
				from, to, _ := strings.Cut(f[0], "-")
				begin, err1 = strconv.ParseUint(from, 16, 64)
				end, err2 = strconv.ParseUint(to, 16, 64)
			}
		case f[0] == "Anonymous:" && f[1] == "0" && begin < end && errors.Join(err1, err2) == nil:
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(begin), uintptr(end-begin), unix.MADV_DONTNEED) // or they stay
		}
	}
}

func onMainThread() bool { return unix.Gettid() == unix.Getpid() }

// BecomeSubreaper makes the orphans below this process its children.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of orphans: %w", err)
	}
	return nil
}

// Children are the numbers of this process's own children, zombies included. The list is exact when the caller is the
// only one that reaps them and does not do so meanwhile. The kernel can omit children only while others are removed.
// There is an error when a part could not be read, as where the kernel keeps no such list (CONFIG_PROC_CHILDREN).
func Children() ([]int, error) {
	const tasks = "/proc/self/task"
	threads, err := names(tasks)
	if err != nil {
		return nil, fmt.Errorf("list own children: %w", err)
	}
	var out []int
	for _, thread := range threads {
		text, err := os.ReadFile(tasks + "/" + thread + "/children") //nolint:gosec // G304: below /proc
		// also of a thread that has ended: its children may have gone to one that was read before
		if err != nil {
			return nil, fmt.Errorf("list own children: %w", err)
		}
		for field := range bytes.FieldsSeq(text) {
			pid, err := strconv.Atoi(string(field))
			if err != nil {
				return nil, fmt.Errorf("list own children: %w", err)
			}
			out = append(out, pid)
		}
	}
	return out, nil
}

// All are the processes of this machine, or container.
func All() ([]Proc, error) {
	entries, err := names("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	procs := make([]Proc, 0, len(entries))
	for _, name := range entries {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := Read(pid); ok {
			procs = append(procs, p)
		}
	}
	return procs, nil
}

func names(path string) ([]string, error) {
	dir, err := os.Open(path) //nolint:gosec // G304: below /proc
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	return dir.Readdirnames(-1)
}

// Read looks at one process; false: there is none with this number.
func Read(pid int) (Proc, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Proc{}, false
	}
	return parseStat(pid, text)
}

// statFields are those of /proc/PID/stat from state on, the third of proc(5). The name before them may hold blanks and
// parentheses; it ends at the last one.
func statFields(text []byte) [][]byte {
	_, after, _ := bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(")"))
	return bytes.Fields(after)
}

// userHZ is how many clock ticks /proc counts in a second, on every architecture that Go has.
const userHZ = 100

// parseStat reads /proc/PID/stat.
func parseStat(pid int, text []byte) (Proc, bool) {
	f := statFields(text)
	if len(f) < 20 { // state ppid pgrp …, starttime is the twentieth
		return Proc{}, false
	}
	parent, err1 := strconv.Atoi(string(f[1]))
	group, err2 := strconv.Atoi(string(f[2]))
	start, err3 := strconv.ParseUint(string(f[19]), 10, 64)
	if errors.Join(err1, err2, err3) != nil {
		return Proc{}, false
	}
	var ticks int64
	for _, field := range f[11:15] { // utime stime cutime cstime
		n, _ := strconv.ParseInt(string(field), 10, 64) // what cannot be read counts for nothing
		ticks += n
	}
	return Proc{
		PID: pid, Parent: parent, Group: group, Start: start, Zombie: f[0][0] == 'Z' || f[0][0] == 'X',
		CPU: time.Duration(ticks) * time.Second / userHZ,
	}, true
}

// Environ is the value of each of these variables in a process's environment, empty where it is not set or the process
// hides it. Reading another process's memory can hang: call it where that holds up nothing.
func Environ(pid int, variables ...string) []string {
	values, _ := LookEnviron(pid, variables...)
	return values
}

// LookEnviron is [Environ]. sure is false while the process has no environment to show: it is executing a new program,
// is ending, or has ended.
func LookEnviron(pid int, variables ...string) (values []string, sure bool) {
	values = make([]string, len(variables))
	dir := "/proc/" + strconv.Itoa(pid)
	text, err := readAtMost(dir+"/environ", maxEnviron)
	if err != nil {
		return values, errors.Is(err, fs.ErrPermission)
	}
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		name, value, _ := bytes.Cut(entry, []byte("="))
		for i, variable := range variables {
			if string(name) == variable {
				values[i] = string(value)
			}
		}
	}
	return values, len(text) > 0 || bare(dir)
}

// maxEnviron is more than a program can be started with: arguments and environment have 6 MiB at most. A process may
// point the kernel to any part of its memory later on (PR_SET_MM), of any size.
const maxEnviron = 8 << 20

func readAtMost(path string, size int64) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // G304: below /proc
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, size))
}

// bare says of a process that showed no environment that its program has an empty one. While the kernel sets a program
// up, and after that has ended, fields of proc(5) are zero. It sets startcode last, after env_start and env_end
// (load_elf_binary in fs/binfmt_elf.c).
func bare(dir string) bool {
	text, err := os.ReadFile(dir + "/stat") //nolint:gosec // G304: below /proc
	if err != nil {
		return false
	}
	f := statFields(text)
	const startCode, envStart, envEnd = 26 - 3, 50 - 3, 51 - 3
	return len(f) > envEnd && string(f[startCode]) != "0" && string(f[envStart]) == string(f[envEnd])
}

// Signal signals exactly the process that was seen: its number can be another's by now, a pidfd checked against the
// start time cannot. Where pidfds cannot be used the start time alone has to do. Linux has them from 5.3 on, and
// seccomp profiles refuse them with EPERM or other errors.
//
// The error is nil as well when the process has ended. It is EPERM when this process may not signal it: it has become
// another user's, as by a setuid program, and lives on.
func (p Proc) Signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
		if !p.lives() {
			return nil
		}
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		if !p.lives() {
			return nil
		}
		err = unix.Kill(p.PID, sig)
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// lives says whether the number is still that of the process that was seen.
func (p Proc) lives() bool {
	now, ok := Read(p.PID)
	return ok && now.Start == p.Start
}

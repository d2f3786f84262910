package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Cgroup is the directory of a control group of version 2, which Linux alone has. What a process starts is in its
// group, whatever it changes of itself. Only who may write to both groups moves a process from one to another.
//
// Groups serve here to find and end processes. No controller is enabled, so cgroup.subtree_control is never written.
// The rule that a group with controllers for its children has no processes of its own ("no internal process
// constraint") therefore does not matter. See https://docs.kernel.org/admin-guide/cgroup-v2.html.
type Cgroup string

// OwnCgroup is the group that this process is in, and what /proc/PID/cgroup calls it. The error says that there is
// none, or that no file system shows it.
func OwnCgroup() (dir Cgroup, name string, err error) {
	if name = CgroupOf(os.Getpid()); name == "" {
		return "", "", fmt.Errorf("find the own control group: %w", errors.ErrUnsupported)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", fmt.Errorf("find the own control group: %w", err)
	}
	dir, ok := cgroupIn(string(mounts), name)
	if !ok {
		return "", "", fmt.Errorf("find the own control group: %s is not mounted: %w", name, errors.ErrUnsupported)
	}
	return dir, name, nil
}

// CgroupOf is the group that a process is in, as /proc shows it below the root of this process's control group
// namespace. Empty: that cannot be seen. A process that has ended and is not reaped is still in its group.
func CgroupOf(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(strings.TrimSuffix(name, "\n"), " (deleted)")
		}
	}
	return ""
}

// cgroupIn finds the directory of a group in the text of mountinfo, which proc(5) describes.
func cgroupIn(mounts, name string) (Cgroup, bool) {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if len(f) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		root, at := unescape(f[3]), unescape(f[4])
		below, err := filepath.Rel(root, name)
		outside := strings.HasPrefix(root, "/..") || strings.HasPrefix(name, "/..") // of the namespace
		if err != nil || outside || !filepath.IsLocal(below) {
			continue
		}
		return Cgroup(filepath.Join(at, below)), true
	}
	return "", false
}

// unescape reads a path of mountinfo, in which a blank is \040.
func unescape(path string) string {
	if s, err := strconv.Unquote(`"` + strings.ReplaceAll(path, `"`, `\"`) + `"`); err == nil {
		return s
	}
	return path
}

// Child is a group below this one.
func (g Cgroup) Child(name string) Cgroup { return Cgroup(filepath.Join(string(g), name)) }

// Events is the file that changes when Populated does.
func (g Cgroup) Events() string { return string(g.Child("cgroup.events")) }

// Kill kills every process in the group and below it, those that are forked meanwhile included. It needs Linux 5.14.
func (g Cgroup) Kill() error {
	if err := os.WriteFile(string(g.Child("cgroup.kill")), []byte("1"), 0); err != nil {
		return fmt.Errorf("kill a control group: %w", err)
	}
	return nil
}

// Populated says whether a process lives in the group or below it. One that ends counts until no code of its program
// can run any more. It is true when that cannot be seen, and false for a group that is not there.
func (g Cgroup) Populated() bool { return populated(os.ReadFile(g.Events())) }

// CPU is the processor time that all in the group and below it have used so far, those that have ended included.
func (g Cgroup) CPU() (time.Duration, error) {
	text, err := os.ReadFile(string(g.Child("cpu.stat")))
	if err != nil {
		return 0, fmt.Errorf("read the processor time of a control group: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if used, ok := strings.CutPrefix(line, "usage_usec "); ok {
			usec, err := strconv.ParseInt(strings.TrimSpace(used), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read the processor time of a control group: %w", err)
			}
			return time.Duration(usec) * time.Microsecond, nil
		}
	}
	return 0, fmt.Errorf("read the processor time of a control group: %w", errors.ErrUnsupported)
}

// AwaitEmpty waits until the group is not populated, at most for limit, and says whether that is so.
func (g Cgroup) AwaitEmpty(limit time.Duration) bool {
	f, err := os.Open(g.Events())
	if err != nil {
		return !g.Populated()
	}
	defer func() { _ = f.Close() }()
	text := make([]byte, 128)
	for end := time.Now().Add(limit); ; {
		n, err := f.ReadAt(text, 0) // a change after this is an event for this file
		if !populated(text[:n], err) {
			return true
		}
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}} //nolint:gosec // G115: a descriptor fits
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return !g.Populated()
		}
	}
}

// populated reads the text of cgroup.events.
func populated(text []byte, err error) bool {
	if len(text) == 0 && err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV)
	}
	return !strings.Contains(string(text), "populated 0")
}

// Remove removes the group and all below it. It fails while any of them is populated.
func (g Cgroup) Remove() error {
	entries, err := os.ReadDir(string(g))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a control group: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := g.Child(e.Name()).Remove(); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(string(g)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove control group %s: %w", g, err)
	}
	return nil
}

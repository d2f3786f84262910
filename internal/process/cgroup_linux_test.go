package process

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/test/suites"
)

//nolint:dupword // mountinfo names the kind of a file system, and then its source
func TestCgroupIn(t *testing.T) {
	const (
		hybrid = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n" +
			"40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n" +
			"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
		unified = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:4 master:2 - cgroup2 cgroup2 rw,nsdelegate\n"
		part    = "35 24 0:30 /a.slice /sys/fs/my\\040groups rw - cgroup2 cgroup2 rw\n"
		above   = "35 24 0:30 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	)
	for _, c := range []struct{ name, mounts, group, want string }{
		{"a hybrid layout", hybrid, "/", "/sys/fs/cgroup/unified"},
		{"a service", unified, "/system.slice/a.service", "/sys/fs/cgroup/system.slice/a.service"},
		{"two dots in a name", unified, "/a..b", "/sys/fs/cgroup/a..b"},
		{"a part is mounted", part, "/a.slice/b", "/sys/fs/my groups/b"},
		{"another part is mounted", part, "/b.slice", ""},
		{"another part, and the whole", part + unified, "/b.slice", "/sys/fs/cgroup/b.slice"},
		{"mounted from outside of the namespace", above, "/", ""},
		{"moved out of the namespace", unified, "/../b", ""},
		{"version 1 alone", "40 31 0:37 / /sys/fs/cgroup rw - cgroup cgroup rw,cpu\n", "/", ""},
		{"nothing", "", "/", ""},
	} {
		if got, ok := cgroupIn(c.mounts, c.group); string(got) != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %v; want %q", c.name, got, ok, c.want)
		}
	}
}

// makeCgroup makes a group beside this process's, and skips the test where that may not be.
func makeCgroup(t *testing.T) (group Cgroup, dir *os.File, name string) {
	t.Helper()
	suites.Need(t, suites.Processes, "real processes")
	parent, name, err := OwnCgroup()
	if err != nil {
		t.Skipf("no control groups: %v", err)
	}
	path, err := os.MkdirTemp(string(parent), "shardctl-test.*") //nolint:usetesting // a control group
	if err != nil {
		t.Skipf("no control groups may be made here: %v", err)
	}
	group = Cgroup(path)
	t.Cleanup(func() {
		_ = group.Kill()
		group.AwaitEmpty(time.Minute)
		if err := group.Remove(); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	if dir, err = os.Open(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return group, dir, filepath.Join(name, filepath.Base(path))
}

func TestStartInACgroup(t *testing.T) {
	group, dir, name := makeCgroup(t)
	s := NewSpawner()
	defer s.Close()
	if group.Populated() {
		t.Error("a new group is populated")
	}
	spec := Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 1000; :"}, Cgroup: dir}
	pid, err := s.Start(spec)
	if err != nil {
		t.Skipf("no process may start in a control group here: %v", err)
	}
	if got := CgroupOf(pid); got != name {
		t.Errorf("it is in %q, want %q", got, name)
	}
	if !group.Populated() || group.AwaitEmpty(time.Millisecond) {
		t.Error("it is not populated")
	}
	if err := group.Remove(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("removed while something lives in it: %v", err)
	}
	if err := group.Kill(); err != nil {
		t.Fatal(err)
	}
	if !group.AwaitEmpty(time.Minute) || group.Populated() {
		t.Error("what was killed lives")
	}
	if got := CgroupOf(pid); got != name {
		t.Errorf("before it is reaped it is in %q, want %q", got, name)
	}
	if err := os.Mkdir(string(group.Child("below")), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := group.Remove(); err != nil || group.Populated() || !group.AwaitEmpty(0) {
		t.Errorf("not removed with what is below: %v", err)
	}
	if got := CgroupOf(pid); got != name {
		t.Errorf("once the group is removed it is in %q, want %q", got, name)
	}
	if status, err := Wait(pid); err != nil || status.Signal() != unix.SIGKILL {
		t.Errorf("status %v, %v", status, err)
	}
	if _, err := s.Start(spec); err == nil {
		t.Error("started in a group that is removed")
	}
}

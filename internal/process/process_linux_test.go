package process

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/test/suites"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come. It is no measure of anything.
const patience = 60 * time.Second

// start runs a shell script, and kills and reaps it at the test's end unless the test has.
func start(t *testing.T, s *Spawner, script string) int {
	t.Helper()
	suites.Need(t, suites.Processes, "real processes")
	pid, err := s.Start(Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _ = Wait(pid)
	})
	return pid
}

func spawner(t *testing.T) *Spawner {
	t.Helper()
	s := NewSpawner()
	t.Cleanup(s.Close)
	return s
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestParseStat(t *testing.T) {
	const tail = " 20 30 30 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0"
	const used = (5 + 6 + 7 + 8) * 10 * time.Millisecond
	for _, c := range []struct {
		text string
		want Proc
		ok   bool
	}{
		{"7 (sh) S" + tail, Proc{PID: 7, Parent: 20, Group: 30, Start: 12345, CPU: used}, true},
		{"7 (a) R 1 (x y) Z" + tail, Proc{PID: 7, Parent: 20, Group: 30, Start: 12345, CPU: used, Zombie: true}, true},
		{"7 (sh) S 1 2 3", Proc{}, false},
		{"", Proc{}, false},
	} {
		if got, ok := parseStat(7, []byte(c.text)); got != c.want || ok != c.ok {
			t.Errorf("%q: %+v, %v", c.text, got, ok)
		}
	}
}

func TestAllHasThisProcess(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(all, func(p Proc) bool { return p.PID == os.Getpid() && p.Parent == os.Getppid() }) {
		t.Error("this process is not in the list")
	}
}

// A process that shows no environment has none, or nothing is known of it. While it goes from program to program it is
// never taken for one without.
func TestEnvironIsSure(t *testing.T) {
	s := spawner(t)
	look := func(pid int) (string, bool) {
		values, sure := LookEnviron(pid, "MARK")
		return values[0], sure
	}
	const chain = "exec env MARK=x nice env nice env nice env nice env sleep 100"
	for range 20 {
		pid := start(t, s, "export MARK=x; "+chain)
		marked := false
		until(t, "the last program runs", func() bool {
			for range 1000 {
				switch value, sure := look(pid); {
				case value == "x":
					marked = true
				case sure && marked:
					t.Fatal("a process that executes a program was taken for one without an environment")
				}
			}
			text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
			return err == nil && strings.HasPrefix(string(text), "sleep")
		})
		if value, sure := look(pid); value != "x" || !sure {
			t.Fatalf("%q, %v", value, sure)
		}
	}
	bare := start(t, s, "exec env -i sleep 100")
	until(t, "it has no environment", func() bool { value, sure := look(bare); return sure && value == "" })
	ended := start(t, s, "exit")
	until(t, "it is a zombie", func() bool { p, ok := Read(ended); return ok && p.Zombie })
	if _, sure := look(ended); sure {
		t.Error("a zombie is sure to have no environment")
	}
	if _, err := Wait(ended); err != nil {
		t.Fatal(err)
	}
	if _, sure := look(ended); sure {
		t.Error("who is gone is sure to have no environment")
	}
}

func TestSignalSparesAnother(*testing.T) {
	me, _ := Read(os.Getpid())
	me.Start++ // as if the number had been another's
	_ = me.Signal(unix.SIGKILL)
}

// Seccomp profiles refuse what they do not know with EPERM: container runtimes did so with pidfds for years.
func TestSignalWherePidfdsAreRefused(t *testing.T) {
	for name, call := range map[string]uint32{
		"pidfd_open": unix.SYS_PIDFD_OPEN, "pidfd_send_signal": unix.SYS_PIDFD_SEND_SIGNAL,
	} {
		for _, refusal := range []unix.Errno{unix.EPERM, unix.ENOSYS} {
			pid := start(t, spawner(t), "exec sleep 1000")
			p, _ := Read(pid)
			another := p
			another.Start++ // as if the number had been another's
			if err := withRefused([]uint32{call}, refusal, func() {
				if err := errors.Join(another.Signal(unix.SIGKILL), p.Signal(unix.SIGTERM)); err != nil {
					t.Errorf("%s with %v: %v", name, refusal, err)
				}
			}); err != nil {
				t.Fatal(err)
			}
			until(t, name+" was made up for", func() bool { p, ok := Read(pid); return ok && p.Zombie })
			if status, err := Wait(pid); err != nil || status.Signal() != unix.SIGTERM {
				t.Errorf("%s with %v: status %v, %v; want the end by SIGTERM", name, refusal, status, err)
			}
		}
	}
}

// Who may not signal a process is told so, and who signals one that has ended is not.
func TestSignalThatIsNotAllowed(t *testing.T) {
	pid := start(t, spawner(t), "exec sleep 1000")
	p, _ := Read(pid)
	if err := withRefused([]uint32{unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_KILL}, unix.EPERM, func() {
		if err := p.Signal(unix.SIGKILL); !errors.Is(err, unix.EPERM) {
			t.Errorf("%v, want %v", err, unix.EPERM)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	if _, err := Wait(pid); err != nil {
		t.Error(err)
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Errorf("it has ended: %v", err)
	}
}

// withRefused does something where the kernel refuses some system calls. A filter holds for its thread, and ends with it.
func withRefused(calls []uint32, refusal unix.Errno, do func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()                                                       // for good: the thread ends with this goroutine
		filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
		for i, call := range calls {
			filter = append(filter, unix.SockFilter{
				Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: uint8(len(calls) - i),
			})
		}
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(refusal)},
		)
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			at := uintptr(unsafe.Pointer(&program))
			err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, at, 0, 0)
		}
		if err == nil {
			do()
		}
		done <- err
	}()
	return <-done
}

func TestReadingHasABound(t *testing.T) {
	if text, err := readAtMost("/dev/zero", 1000); len(text) != 1000 || err != nil {
		t.Errorf("%d bytes, %v; want 1000", len(text), err)
	}
}

func TestChildrenAreOwnAndUntilReaped(t *testing.T) {
	s := spawner(t)
	var want []int
	for range 5 {
		want = append(want, start(t, s, "exec sleep 1000"))
	}
	ended := start(t, s, "exit 3")
	until(t, "it is a zombie", func() bool { p, ok := Read(ended); return ok && p.Zombie })
	got, err := Children()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	want = append(want, ended)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("children %v, want %v", got, want)
	}
	if status, err := Wait(ended); err != nil || status.ExitStatus() != 3 {
		t.Errorf("status %v, %v", status, err)
	}
	if got, _ := Children(); slices.Contains(got, ended) {
		t.Error("a reaped child is listed")
	}
}

func TestGroups(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	s := spawner(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := s.Start(Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 1000 & exit 4"}, Stdout: w, // which the sleeper keeps open
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if group, err := unix.Getpgid(pid); err == nil && group != pid {
		t.Errorf("group %d, want %d", group, pid)
	}
	if status, err := Wait(pid); err != nil || status.ExitStatus() != 4 {
		t.Errorf("status %v, %v", status, err)
	}
	if GroupEmpty(pid) || GroupGone(pid) {
		t.Error("gone while a process of it lives")
	}
	SignalGroup(pid, unix.SIGKILL)
	if _, err := io.ReadAll(r); err != nil {
		t.Error(err)
	}
	until(t, "the group is gone", func() bool { return GroupGone(pid) })
	_ = r.Close()
}

func TestStartErrors(t *testing.T) {
	s := spawner(t)
	if _, err := s.Start(Spec{Path: "/no/such/file", Args: []string{"x"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
	nowhere := Spec{Path: "/bin/true", Args: []string{"true"}, Dir: "/no/such/dir"}
	if _, err := s.Start(nowhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	s.Close()
	s.Close()
	if _, err := s.Start(Spec{Path: "/bin/true", Args: []string{"true"}}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// The death signal hangs on the thread that forked, so the thread's end is the end of what it started.
func TestCloseKillsWhatRuns(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	s := NewSpawner()
	pid := start(t, s, "exec sleep 1000")
	s.Close()
	if status, err := Wait(pid); err != nil || status.Signal() != unix.SIGKILL {
		t.Errorf("status %v, %v", status, err)
	}
}

// Go does not end the main thread, so a thread that is to end must be another one. The goroutines of half the tries
// begin while the main thread is free.
func TestNoThreadIsTheMainOne(t *testing.T) {
	for range 200 {
		thread := NewThread()
		main := false
		if err := thread.do(func() { main = onMainThread() }); err != nil {
			t.Fatal(err)
		}
		thread.Close()
		if main {
			t.Fatal("it is the main thread, which stays")
		}
	}
}

// A command that was started from a thread has no say in when it ends: the thread has.
func TestThreadKeepsACommandUntilClose(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	thread := NewThread()
	cmd := exec.Command("/bin/sh", "-c", "exec sleep 1000")
	cmd.SysProcAttr = OwnGroup()
	if err := thread.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if err := thread.Start(exec.Command("/no/such/file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
	if p, ok := Read(cmd.Process.Pid); !ok || p.Zombie {
		t.Error("it ended by itself")
	}
	thread.Close()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Errorf("it ended with %v", err)
	}
	if err := thread.Start(exec.Command("/bin/true")); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	program := write("program", "#!/bin/sh\n", 0o700)
	write("text", "", 0o600)
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, want string }{
		{"program", dir, program},
		{"program", "/nowhere:" + dir, program},
		{"text", dir, ""},         // cannot be executed
		{"program", ".", program}, // relative to the directory in which the command runs
		{"absent", dir, ""},
		{"./program", "", "./program"},
		{"/no/such/file", "", "/no/such/file"}, // for the kernel to refuse
		{fifo, "", fifo},                       // it is not waited for
	} {
		got, err := Resolve(t.Context(), c.name, []string{"PATH=" + c.path}, dir)
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s in %s: %q, %v; want %q", c.name, c.path, got, err, c.want)
		}
	}
}

// lease has every opening of a file wait, as a dead file server would, and returns what ends that.
func lease(t *testing.T, path string) (end func()) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		_ = f.Close()
		t.Skipf("no leases on this file system: %v", err)
	}
	end = func() { _ = f.Close() }
	t.Cleanup(end)
	return end
}

func TestResolveWaitsForAFileSystemThatHangs(t *testing.T) {
	for what, interpreted := range map[string]bool{"the program": false, "its interpreter": true} {
		path := filepath.Join(t.TempDir(), "hangs")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		command := path
		if interpreted {
			command = filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(command, []byte("#!"+path+" -x\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		end := lease(t, path)
		ctx, cancel := context.WithCancel(t.Context())
		answered := make(chan error, 1)
		go func() {
			_, err := Resolve(ctx, command, nil, "/")
			answered <- err
		}()
		// Others go on meanwhile, and this one can be called off.
		if _, err := Resolve(t.Context(), "/bin/sh", nil, "/"); err != nil {
			t.Errorf("%s: another command: %v", what, err)
		}
		until(t, "the file system is asked", func() bool { return len(probes) == 1 })
		select {
		case err := <-answered:
			t.Errorf("%s: it did not wait: %v", what, err)
		default:
		}
		cancel()
		if err := <-answered; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
		end()
		until(t, "the file system has answered", func() bool { return len(probes) == 0 })
	}
}

func BenchmarkChildren(b *testing.B) {
	for b.Loop() {
		if _, err := Children(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAll(b *testing.B) {
	for b.Loop() {
		if _, err := All(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(must(All()))), "processes")
}

func must(all []Proc, _ error) []Proc { return all }

// Pages of the program are mapped again as they are used.
func TestProgramPagesAreReleased(t *testing.T) {
	before := programPages(t)
	ReleaseProgramPages()
	if after := programPages(t); after >= before {
		t.Errorf("%d KiB of the program are mapped, %d before", after, before)
	}
}

// programPages is how much of this program's file is mapped read-only and resident, in KiB.
func programPages(t *testing.T) (sum int) {
	t.Helper()
	self, _ := os.Readlink("/proc/self/exe") // without it nothing counts
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	counts := false
	for line := range strings.Lines(string(text)) {
		switch f := strings.Fields(line); {
		case !strings.HasSuffix(f[0], ":"): // a mapping begins
			counts = f[len(f)-1] == self && !strings.Contains(f[1], "w")
		case counts && f[0] == "Rss:":
			kib, _ := strconv.Atoi(f[1])
			sum += kib
		}
	}
	return sum
}

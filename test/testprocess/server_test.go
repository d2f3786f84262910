//go:build linux

package testprocess_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

// role is a variable that has this test program be a server, or what a server starts.
const role = "TESTPROCESS_ROLE"

const limit = 20 * time.Second

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "server":
		serve(os.Getenv("ADDR"))
	case "session":
		time.Sleep(time.Hour) // until killed
	case "parent":
		parent()
	case "careless":
		os.Exit(m.Run())
	default:
		os.Exit(testprocess.Main(m))
	}
}

// serve echoes lines. It starts a process with a session of its own, as PostgreSQL does.
func serve(addr string) {
	below := exec.CommandContext(context.Background(), os.Args[0])
	below.Env = append(os.Environ(), role+"=session")
	below.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // it dies with the thread that starts it
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	err = errors.Join(err, below.Start())
	if err == nil {
		err = os.WriteFile("below", []byte(strconv.Itoa(below.Process.Pid)), 0o600)
	}
	for err == nil {
		var conn net.Conn
		if conn, err = l.Accept(); err == nil {
			_, _ = conn.Write([]byte("hello\n"))
			_ = conn.Close()
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// parent opens a server, says its process and that below it, and waits to be killed.
func parent() {
	s, err := testprocess.Open(context.Background(), "greeter", &greeter{}, "greeter", testprocess.Options{})
	for err == nil {
		if text, _ := os.ReadFile(filepath.Join(s.Dir(), "below")); len(text) > 0 {
			_, _ = fmt.Fprintf(os.Stdout, "%d %s\n", s.PID(), text)
			select {}
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// greeter is this test program as a server.
type greeter struct{ copied string }

func (*greeter) Provide(context.Context) error { return nil }
func (*greeter) Ports() int                    { return 1 }

func (g *greeter) Prepare(_ context.Context, s *testprocess.Site) error {
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		return err
	}
	g.copied = s.Path("program") // where another user can run it
	if _, err := os.Stat(g.copied); err == nil {
		return nil
	}
	return errors.Join(s.WriteFile("program", program), os.Chmod(g.copied, 0o700))
}

func (g *greeter) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: []string{g.copied}, Env: []string{role + "=server", "ADDR=" + s.Addr(0)}}}
}

func (*greeter) Ready(ctx context.Context, s *testprocess.Site) error {
	line, err := testprocess.AskLine(ctx, s.Addr(0), "")
	if err == nil && line != "hello" {
		err = fmt.Errorf("it says %q", line)
	}
	return err
}

// modest is one that refuses to run as root.
type modest struct{ greeter }

func (*modest) Unprivileged() {}

func open(t *testing.T, software testprocess.Software, dir string) *testprocess.Server {
	t.Helper()
	suites.Need(t, suites.Processes, "real processes")
	s, err := testprocess.Open(t.Context(), "greeter", software, dir, testprocess.Options{})
	check(t, "open", err)
	t.Cleanup(s.Close)
	return s
}

// below is the process that the server started last.
func below(t *testing.T, s *testprocess.Server) process.Proc {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(s.Dir(), "below"))
		pid, _ := strconv.Atoi(string(text))
		if p, ok := process.Read(pid); ok && p.Parent == s.PID() {
			return p
		}
	}
	t.Fatal("it started no process")
	return process.Proc{}
}

func TestKillEndsAllThatAServerStarted(t *testing.T) {
	s := open(t, &greeter{}, t.TempDir())
	addr, old := s.Addr(), below(t, s)
	s.Kill()
	if p, ok := process.Read(old.PID); ok && p.Start == old.Start && !p.Zombie {
		t.Errorf("process %d outlives a kill", old.PID)
	}
	check(t, "start", s.Start(t.Context()))
	if s.Addr() != addr {
		t.Errorf("it listens on %s now, before on %s", s.Addr(), addr)
	}
	if again := below(t, s); again.ID() == old.ID() {
		t.Error("the second start started nothing")
	}
}

func TestFreezeStopsAllThatAServerStarted(t *testing.T) {
	s := open(t, &greeter{}, t.TempDir())
	child := below(t, s)
	s.Freeze()
	if got := state(t, child.PID) + state(t, s.PID()); got != "TT" {
		t.Errorf("frozen processes are in states %q", got)
	}
	brief, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer end()
	if err := s.Software().Ready(brief, s.Site()); err == nil {
		t.Error("a frozen server answers")
	}
	s.Thaw()
	later, end := context.WithTimeout(t.Context(), limit)
	defer end()
	check(t, "ask after the thaw", s.Software().Ready(later, s.Site()))
	if got := state(t, child.PID); got == "T" {
		t.Error("what it started is frozen still")
	}
	s.Freeze()
	check(t, "stop a frozen one", s.Stop())
	if p, ok := process.Read(child.PID); ok && p.Start == child.Start && !p.Zombie {
		t.Errorf("process %d outlives an orderly end", child.PID)
	}
}

// state is the letter of a process's state.
func state(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	check(t, "state", err)
	_, after, _ := strings.Cut(string(stat), ") ")
	return after[:1]
}

func TestUnprivilegedSoftwareRunsAsNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, who alone can become another user")
	}
	account, err := user.Lookup("nobody")
	check(t, "look nobody up", err)
	s := open(t, &modest{}, filepath.Join(t.TempDir(), "data"))
	for _, path := range []string{"/proc/" + strconv.Itoa(s.PID()), s.Dir()} {
		info, err := os.Stat(path)
		check(t, "stat", err)
		owner, _ := info.Sys().(*syscall.Stat_t)
		if strconv.Itoa(int(owner.Uid)) != account.Uid {
			t.Errorf("%s belongs to user %d, want %s", path, owner.Uid, account.Uid)
		}
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID()) + "/environ")
	if err == nil && !strings.Contains(string(text), "\x00HOME="+s.Dir()+"\x00") {
		t.Error("its home is not its directory")
	}
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	_, err := testprocess.Program("greeter", "greeter-server", "no-such-program")
	if !errors.Is(err, testprocess.ErrMissing) ||
		!strings.Contains(err.Error(), "install --no-install-recommends greeter-server") {
		t.Errorf("the error is %v", err)
	}
}

func TestServersListenOnThePortsThatTheyAreGiven(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	ports, err := testprocess.FreePorts(t.Context(), 1)
	check(t, "find a port", err)
	s, err := testprocess.Open(t.Context(), "greeter", &greeter{}, t.TempDir(), testprocess.Options{Ports: ports})
	check(t, "open", err)
	defer s.Close()
	if want := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])); s.Addr() != want {
		t.Errorf("it listens on %s, want %s", s.Addr(), want)
	}
}

// TestShares is the test of another process, below.
func TestShares(t *testing.T) {
	if os.Getenv(role) == "" {
		t.Skip("needs another test, which starts it")
	}
	// They inherit the variable otherwise.
	t.Setenv(role, "")
	one, two := &testprocess.Family{}, &testprocess.Family{}
	share := func(f *testprocess.Family) *testprocess.Server {
		return testprocess.Shared(t, f, "greeter", func(ctx context.Context, dir string) (*testprocess.Server, error) {
			return testprocess.Open(ctx, "greeter", &greeter{}, dir, testprocess.Options{})
		})
	}
	first := share(one)
	if share(one) != first || share(two) == first {
		t.Error("a family has one server of a name")
	}
	t.Log("below is", below(t, first), below(t, share(two)))
}

// shares runs TestShares in another process, whose temporary files are in dir.
func shares(t *testing.T, as, dir string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestShares$", "-test.v")
	cmd.Env = append(os.Environ(), role+"="+as, "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Servers of several families end with the tests that share them, and nothing of them stays.
func TestSharedServersEnd(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	dir := t.TempDir()
	out, err := shares(t, "shares", dir)
	check(t, out, err)
	files, err := os.ReadDir(dir)
	check(t, "look at temporary files", err)
	if len(files) > 0 {
		t.Error(files, "have stayed")
	}
	processes, err := process.All()
	check(t, "look at processes", err)
	for _, p := range processes {
		if process.Environ(p.PID, "TMPDIR")[0] == dir {
			t.Error(p.PID, "has stayed")
		}
	}
}

// A package that would leave them behind is told at its first test.
func TestSharedServersNeedMain(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	out, err := shares(t, "careless", t.TempDir())
	if err == nil || !strings.Contains(out, "testprocess.Main") {
		t.Error(err, out)
	}
}

func TestKilledTestLeavesNoServer(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	t.Chdir(t.TempDir()) // what the child leaves goes with this test
	child := testprocess.StartAgain(t, role+"=parent")
	var server, below int
	_, err := fmt.Sscan(child.Line(t), &server, &below)
	check(t, "read the processes", err)
	var seen []process.Proc
	for _, pid := range []int{server, below} {
		p, found := process.Read(pid)
		if !found {
			t.Fatalf("process %d is gone already", pid)
		}
		seen = append(seen, p)
	}
	child.Kill()
	for _, p := range seen {
		for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
			if now, found := process.Read(p.PID); !found || now.Start != p.Start || now.Zombie {
				break
			}
			if time.Now().After(end) {
				_ = p.Signal(syscall.SIGKILL)
				t.Fatalf("process %d outlives the test that started it", p.PID)
			}
		}
	}
}

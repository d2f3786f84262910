package dev

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	_ "github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// patience is for what a loaded machine takes; nothing here waits for it to pass.
const patience = 60 * time.Second

// devProcess is `shardctl dev` as a process, without a terminal.
type devProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	tmp   string // what it and all that it starts have as TMPDIR
	lines chan string
	seen  []string
}

// programDir holds the program once a test has asked for it; TestMain removes it.
var programDir *testprocess.Work

func TestMain(m *testing.M) {
	code := m.Run()
	if programDir != nil {
		_ = programDir.Close(false)
	}
	os.Exit(code)
}

// build builds the program once for all tests: linking it takes longer than most of them do.
func build(t *testing.T) string {
	t.Helper()
	if programDir != nil {
		return filepath.Join(programDir.Data(), "shardctl")
	}
	dir, err := testprocess.WorkDir("dev")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir.Data(), "shardctl")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/shardctl").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	programDir = dir
	return program
}

func startReal(t *testing.T, args ...string) *devProcess {
	t.Helper()
	program := build(t)
	// The path of a socket is short, and t.TempDir has the name of the test.
	tmp, err := os.MkdirTemp("", "dev-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	r := &devProcess{t: t, tmp: tmp, lines: make(chan string, 1000)}
	r.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), program, append([]string{"dev"}, args...)...)
	r.cmd.Env = append(os.Environ(), "TMPDIR="+r.tmp)
	r.cmd.Stderr = os.Stderr
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			r.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

// until reads lines up to one that matches and returns what its brackets hold.
func (r *devProcess) until(pattern string) []string {
	r.t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.After(patience)
	for {
		select {
		case line, ok := <-r.lines:
			if !ok {
				r.t.Fatalf("it ended before %q:\n%s", pattern, strings.Join(r.seen, "\n"))
			}
			r.seen = append(r.seen, line)
			if m := re.FindStringSubmatch(line); m != nil {
				return m[1:]
			}
		case <-limit:
			r.t.Fatalf("no line like %q:\n%s", pattern, strings.Join(r.seen, "\n"))
		}
	}
}

// quit asks it to end, and fails the test unless it ends well and leaves nothing.
func (r *devProcess) quit() {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	rest := r.drain()
	if err := r.cmd.Wait(); err != nil {
		r.t.Errorf("it ended with %v: %q", err, rest)
	}
	r.nothingLeft()
}

// left lists the processes that dev started and that are there.
func (r *devProcess) left() []string {
	r.t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		r.t.Fatal(err)
	}
	var left []string
	for _, file := range environs {
		content, err := os.ReadFile(file)
		if err == nil && bytes.Contains(content, []byte("TMPDIR="+r.tmp)) {
			pid := filepath.Base(filepath.Dir(file))
			name, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
			left = append(left, pid+" "+string(bytes.ReplaceAll(name, []byte{0}, []byte{' '})))
		}
	}
	return left
}

// running are the processes of tasks, without their children.
func (r *devProcess) running() int {
	n := 0
	for _, process := range r.left() {
		pid, name, _ := strings.Cut(process, " ")
		id := number(r.t, pid)
		if group, err := syscall.Getpgid(id); err == nil && group == id &&
			strings.Contains(name, "$SHARDCTL_FENCING_TOKEN") {
			n++
		}
	}
	return n
}

func (r *devProcess) eventually(what string, holds func() bool) {
	r.t.Helper()
	for limit := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			left := r.left()
			_ = r.cmd.Process.Signal(syscall.SIGTERM) // so that its lines end
			r.t.Fatalf("never: %s; left: %q\n%s", what, left, strings.Join(append(r.seen, r.drain()...), "\n"))
		}
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRealCluster(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	r := startReal(t, "--replicas", "3", "--tasks", "12", "--cap", "9", "--port", "0")
	url := r.until(`the page is on (http://\S+), logs`)[0]
	pids := r.until(`r3 started: guard (\d+), worker (\d+)`)
	r.until(`group topics: 12 of 12 running`)
	r.evenly(url, map[string]int{"r1": 4, "r2": 4, "r3": 4})
	if n := r.running(); n != 12 {
		t.Errorf("%d tasks run", n)
	}
	code, page, _ := ask(t, "GET", url, "")
	if code != 200 || !strings.Contains(page, "<html") {
		t.Errorf("the page: %d %q", code, page)
	}
	for host, want := range map[string]int{"": http.StatusOK, "evil.example": http.StatusMisdirectedRequest} {
		if code := askToDrain(t, url, host); code != want {
			t.Errorf("a change asked for under the name %q: %d, want %d", host, code, want)
		}
	}

	for _, pid := range pids {
		if err := syscall.Kill(number(t, pid), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	r.until(`r3 died: signal: killed`)
	r.evenly(url, map[string]int{"r1": 6, "r2": 6})
	r.eventually("twelve processes of tasks", func() bool { return r.running() == 12 })

	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest := r.drain()
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v: %q", err, rest)
	}
	// Where the guard is killed as well, the sleep of a task's shell ends by itself.
	r.eventually("an end of all processes", func() bool { return len(r.left()) == 0 })
}

// askToDrain asks for a dry run of a change.
func askToDrain(t *testing.T, url, host string) (code int) {
	t.Helper()
	req, err := http.NewRequestWithContext(
		t.Context(), http.MethodPost, url+"/api/v1/instances/r1/drain", strings.NewReader(`{"dryRun": true}`),
	)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// drain reads to the end.
func (r *devProcess) drain() (rest []string) {
	for line := range r.lines {
		rest = append(rest, line)
	}
	return rest
}

func (r *devProcess) nothingLeft() {
	r.t.Helper()
	if left := r.left(); len(left) > 0 {
		r.t.Errorf("processes are left: %q", left)
	}
	if files, err := os.ReadDir(r.tmp); err != nil || len(files) > 0 {
		r.t.Errorf("files are left: %v, %v", files, err)
	}
}

// When dev itself is killed, its replicas and their tasks go too.
func TestRealClusterKilled(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	r := startReal(t, "--replicas", "2", "--tasks", "4", "--port", "0")
	r.until(`group topics: 4 of 4 running`)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.drain()
	_ = r.cmd.Wait() // killed
	r.eventually("nothing is left", func() bool { return len(r.left()) == 0 })
}

func TestRealClusterWithoutReplica(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	r := startReal(t, "--replicas", "1", "--tasks", "3", "--port", "0")
	pids := r.until(`r1 started: guard (\d+), worker (\d+)`)
	r.until(`instance r1: live`)
	if err := syscall.Kill(number(t, pids[1]), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.until(`r1 died: its worker: signal: killed`)
	r.drain()
	var exit *exec.ExitError
	if err := r.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("with no replica left it ended with %v", err)
	}
	r.nothingLeft()
}

func TestRealClusterRefusesATakenPort(t *testing.T) {
	suites.Need(t, suites.Processes, "real processes")
	program := build(t)
	taken, _ := backend(t, func(http.ResponseWriter, *http.Request) {})
	port := taken[strings.LastIndexByte(taken, ':')+1:]
	for flag, want := range map[string]string{
		"--port=" + port: fmt.Sprintf("error: --port %s: the page cannot listen: listen tcp 127.0.0.1:%s: bind: "+
			"address already in use; choose another", port, port),
		"--replicas=0":    "error: --replicas 0: want 1 to 50",
		"--tasks=many":    "error: invalid argument \"many\" for \"--tasks\" flag",
		"--port=70000":    "error: --port 70000: want 0 to 65535",
		"--no-such-thing": "error: unknown flag: --no-such-thing",
	} {
		cmd := exec.CommandContext(t.Context(), program, "dev", flag)
		var reported bytes.Buffer
		cmd.Stdout, cmd.Stderr = io.Discard, &reported
		var exit *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 ||
			!strings.HasPrefix(reported.String(), want) {
			t.Errorf("%s: got %v, %q", flag, err, reported.String())
		}
	}
}

// On a store of one's own all runs as on a file. Processes and files go at the end; the cluster called dev stays there,
// without an owner, and goes on with higher tokens.
func TestRealClusterOnAServer(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	uri := testservers.Start(t, testservers.KindPostgres).Database()
	before := map[string]int64{}
	for range 2 {
		playOn(t, uri)
		locks := released(t, uri)
		if len(locks) != 6 {
			t.Fatalf("%d locks are left: %v", len(locks), locks)
		}
		for key, rev := range locks {
			if rev <= before[key] {
				t.Errorf("%s: revision %d after %d", key, rev, before[key])
			}
		}
		before = locks
	}
	db, err := store.Open(t.Context(), store.Config{URI: uri, Existing: true})
	if !errors.Is(err, store.ErrInvalid) {
		_ = db.Close(t.Context())
		t.Errorf("the cluster default is there as well: %v", err)
	}
}

// playOn runs six tasks on two replicas, and quits.
func playOn(t *testing.T, uri string) {
	t.Helper()
	r := startReal(t, "--store", uri, "--replicas", "2", "--tasks", "6", "--cap", "6", "--port", "0")
	url := r.until(`the page is on (http://\S+), logs`)[0]
	r.until(`group topics: 6 of 6 running`)
	r.evenly(url, map[string]int{"r1": 3, "r2": 3})
	r.eventually("six processes of tasks", func() bool { return r.running() == 6 })
	r.quit()
}

// released are the revisions of the locks, none of which has an owner, in a cluster without a living session.
func released(t *testing.T, uri string) map[string]int64 {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{URI: uri, Cluster: clusterName, Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	sessions, err := db.List(t.Context(), driver.KindSession, driver.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sessions.Docs {
		if s.State != string(record.Dead) {
			t.Errorf("session %s is %s", s.ID, s.State)
		}
	}
	locks, err := db.List(t.Context(), driver.KindLock, driver.Query{})
	if err != nil {
		t.Fatal(err)
	}
	revs := map[string]int64{}
	for _, lock := range locks.Docs {
		revs[lock.ID] = lock.Rev
		if lock.Session != "" {
			t.Errorf("%s is owned by %s", lock.ID, lock.Session)
		}
	}
	return revs
}

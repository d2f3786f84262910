package guard

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/test/suites"
)

// patience is how long a test waits for what must come. It is no measure of anything.
const patience = 60 * time.Second

var sessions atomic.Int64

// replica is a guard and its worker under test.
type replica struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.WriteCloser
	events  chan event
	seen    []event
	session string
	worker  int
	lease   time.Duration
	exited  chan struct{} // closed when the guard has been waited for
}

// newReplica starts a guard and a worker with an open session that has just had a heartbeat acknowledged.
func newReplica(t *testing.T, lease time.Duration) *replica {
	t.Helper()
	r := launch(t)
	r.lease = lease
	r.do(deed{Do: "hello", For: lease, Limit: 30 * time.Second})
	r.do(deed{Do: "open", Session: r.session})
	r.heartbeat()
	return r
}

func launch(t *testing.T) *replica {
	t.Helper()
	suites.Need(t, suites.Processes, "real processes")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"=guard")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &replica{
		t: t, cmd: cmd, in: in, events: make(chan event, 4096), exited: make(chan struct{}),
		session: fmt.Sprintf("test-%d-%d", os.Getpid(), sessions.Add(1)),
	}
	go r.read(out)
	t.Cleanup(r.cleanUp)
	r.worker = r.expect("connected", "").PID
	return r
}

// read passes events on until none can be written any more.
func (r *replica) read(out io.Reader) {
	defer close(r.exited)
	defer close(r.events)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			r.events <- e
		}
	}
	_ = r.cmd.Wait()
}

func (r *replica) cleanUp() {
	_ = syscall.Kill(r.cmd.Process.Pid, syscall.SIGKILL)
	if r.worker > 0 && exists(r.worker) {
		_ = syscall.Kill(r.worker, syscall.SIGKILL)
	}
	for _, p := range marked(r.session) {
		_ = p.Signal(syscall.SIGKILL)
	}
	for range r.events { // the reader must not be left waiting
		continue
	}
	<-r.exited
	sweep(r.t)
}

// sweep ends and removes the control groups of guards that are dead, as the next guard would.
func sweep(t *testing.T) {
	t.Helper()
	if parent, _, err := process.OwnCgroup(); err == nil {
		(&cgroups{journal: newJournal(testr.New(t))}).sweep(parent)
	}
}

func (r *replica) do(d deed) {
	r.t.Helper()
	line, err := json.Marshal(d)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.in.Write(append(line, '\n')); err != nil {
		r.t.Fatalf("%s: %v", d.Do, err)
	}
}

func (r *replica) heartbeat() { r.do(deed{Do: "heartbeat", Session: r.session, For: r.lease}) }

// start has a script run, and returns its process id.
func (r *replica) start(name, script string) int {
	r.t.Helper()
	r.do(deed{Do: "start", Session: r.session, Name: name, Script: script})
	return r.expect("started", name).PID
}

func (r *replica) stop(name string, sig syscall.Signal, grace time.Duration) {
	r.do(deed{Do: "stop", Name: name, Signal: int(sig), For: grace})
}

func (r *replica) kill(pid int, sig syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		r.t.Fatalf("signal %d to %d: %v", sig, pid, err)
	}
}

// expect waits for an event, and keeps the others for later.
func (r *replica) expect(kind, name string) event {
	r.t.Helper()
	return r.expectThat(kind+" "+name, func(e event) bool { return e.Event == kind && e.Name == name })
}

func (r *replica) expectText(kind, text string) {
	r.t.Helper()
	r.expectThat(kind+" "+text, func(e event) bool { return e.Event == kind && strings.HasPrefix(e.Text, text) })
}

// pidLine waits for a task's line of output that is a process id.
func (r *replica) pidLine(name string) int {
	r.t.Helper()
	pid, err := strconv.Atoi(r.expect("line", name).Text)
	if err != nil {
		r.t.Fatal(err)
	}
	return pid
}

func (r *replica) expectThat(what string, match func(event) bool) event {
	r.t.Helper()
	for i, e := range r.seen {
		if match(e) {
			r.seen = append(r.seen[:i:i], r.seen[i+1:]...)
			return e
		}
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case e, ok := <-r.events:
			if !ok {
				r.t.Fatalf("waiting for %q: the replica has ended; events: %+v", what, r.seen)
			}
			if match(e) {
				return e
			}
			r.seen = append(r.seen, e)
		case <-limit.C:
			r.t.Fatalf("waiting for %q: nothing came; events: %+v", what, r.seen)
		}
	}
}

// ended waits for the guard's end and returns its exit status.
func (r *replica) ended() int {
	r.t.Helper()
	e := r.expect("ended", "")
	if e.Error != "" {
		r.t.Errorf("the guard ended with: %s", e.Error)
	}
	return e.Code
}

func (r *replica) happened(kind string) bool {
	for _, e := range r.seen {
		if e.Event == kind {
			return true
		}
	}
	return false
}

// exists says whether a process lives; a zombie does not.
func exists(pid int) bool {
	p, ok := process.Read(pid)
	return ok && !p.Zombie
}

// until polls for what nothing reports.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(limit) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

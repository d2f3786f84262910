package guard

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const long = 60 * time.Second // a lease that does not run out in a test

func TestExitStatus(t *testing.T) {
	r := newReplica(t, long)
	for _, c := range []struct {
		name, script string
		code, signal int
	}{
		{"ok", "exit 0", 0, 0},
		{"three", "exit 3", 3, 0},
		{"killed", "kill -9 $$", -1, 9},
	} {
		r.do(deed{Do: "start", Session: r.session, Name: c.name, Script: c.script})
		if e := r.expect("exited", c.name); e.Code != c.code || e.Signal != c.signal {
			t.Errorf("%s: exit %d, signal %d; want %d, %d", c.name, e.Code, e.Signal, c.code, c.signal)
		}
		r.expect("gone", c.name)
	}
	r.do(deed{Do: "exit", Code: 7})
	if code := r.ended(); code != 7 {
		t.Errorf("the guard's status is %d, want the worker's 7", code)
	}
}

func TestCommandGetsOutputAndEnvironment(t *testing.T) {
	r := newReplica(t, long)
	// More environment than one write takes, and the trace of the guard is not in it.
	r.do(deed{Do: "start", Session: r.session, Name: "a", Pad: 600 << 10, Script: `
		echo "key $SHARDCTL_KEY guard $SHARDCTL_GUARD" >&2; env | wc -c`})
	r.expectText("line", "key g/a guard")
	r.expectThat("size", func(e event) bool { return e.Event == "line" && len(e.Text) == 6 })
	r.expect("eof", "a") // the guard has kept no end of the pipe
	r.expect("gone", "a")
}

func TestStartRefused(t *testing.T) {
	r := newReplica(t, long)
	r.do(deed{Do: "start", Session: "another", Name: "nosession", Script: "true"})
	r.expect("refused", "nosession")

	r.do(deed{Do: "start", Session: r.session, Name: "nofile", Args: []string{"/no/such/file"}})
	if e := r.expect("refused", "nofile"); !e.NotExist || strings.Count(e.Error, "no such file") != 1 {
		t.Errorf("the error does not say once that the file does not exist: %s", e.Error)
	}
	script := filepath.Join(t.TempDir(), "crlf")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\r\necho hi\r\n"), 0o700))
	r.do(deed{Do: "start", Session: r.session, Name: "crlf", Args: []string{script}})
	if e := r.expect("refused", "crlf"); !e.NotExist || !strings.Contains(e.Error, "CR LF") {
		t.Errorf("the error does not say what is wrong with the script: %s", e.Error)
	}
	r.do(deed{Do: "start", Session: r.session, Name: "nopath", Args: []string{"no-such-command"}})
	if e := r.expect("refused", "nopath"); !e.NotExist {
		t.Errorf("the error does not say that the file does not exist: %s", e.Error)
	}

	r.start("twice", "exec sleep 1000")
	r.do(deed{Do: "start", Session: r.session, Name: "twice", Script: "true"})
	r.expect("refused", "twice")
	r.stop("twice", syscall.SIGKILL, 0)
	r.expect("gone", "twice")
	r.start("twice", "true")
}

func TestStartAfterTheDeadlineIsRefused(t *testing.T) {
	r := newReplica(t, time.Second)
	until(t, "the renewal deadline has passed", func() bool {
		r.do(deed{Do: "start", Session: r.session, Name: "late", Script: "true"})
		e := r.expectThat("an answer", func(e event) bool { return e.Event == "refused" || e.Event == "gone" })
		return e.Event == "refused"
	})
	r.heartbeat()
	r.do(deed{Do: "sync"})
	r.expect("synced", "")
	r.do(deed{Do: "start", Session: r.session, Name: "again", Script: "true"})
	r.expect("gone", "again")
}

// A file that does not answer, as on a dead file server, holds up the start that needs it and no other.
func TestHungExecveHoldsUpThatTaskAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hangs")
	must(t, os.WriteFile(file, []byte("#!/bin/sh\necho up\nexec sleep 1000\n"), 0o700))
	lease, err := os.Open(file)
	must(t, err)
	defer func() { _ = lease.Close() }()
	if _, err := unix.FcntlInt(lease.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatalf("a lease on %s: %v", file, err) // whose opening by another then waits
	}
	r := newReplica(t, long)
	r.do(deed{Do: "start", Session: r.session, Name: "hung", Args: []string{file}})
	r.do(deed{Do: "start", Session: r.session, Name: "cancelled", Args: []string{file}, For: 10 * time.Millisecond})
	r.expect("refused", "cancelled") // and it is known that nothing of it runs
	r.start("a", "exec sleep 1000")
	r.stop("a", syscall.SIGTERM, patience)
	r.expect("gone", "a")
	if slices.ContainsFunc(r.seen, func(e event) bool { return e.Name == "hung" }) {
		t.Fatal("the file answered: nothing was tested")
	}
	must(t, lease.Close())
	r.expect("started", "hung")
	r.expectText("line", "up")
}

// leaver starts processes that leave their group, one of them as an orphan of the guard's.
const leaver = `setsid sleep 1000 &
(setsid sleep 1001 & exit 0)
sh -c 'trap "" TERM; sleep 1002' &
echo ready
wait`

func TestStopEndsEverything(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		grace  time.Duration
	}{
		{"term", syscall.SIGTERM, 100 * time.Millisecond},
		{"kill", syscall.SIGKILL, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newReplica(t, long)
			r.start("a", leaver)
			r.expectText("line", "ready")
			until(t, "all processes run", func() bool { return len(marked(r.session)) >= 5 })
			r.stop("a", c.signal, c.grace)
			if e := r.expect("gone", "a"); e.Alive != 0 {
				t.Errorf("%d processes are left", e.Alive)
			}
		})
	}
}

// Without a list of its own children (CONFIG_PROC_CHILDREN) the guard walks through all processes.
func TestGoneWithoutAListOfChildren(t *testing.T) {
	t.Setenv(envNoList, "1")
	r := newReplica(t, long)
	r.start("a", leaver)
	r.expectText("line", "ready")
	r.stop("a", syscall.SIGTERM, 100*time.Millisecond)
	if e := r.expect("gone", "a"); e.Alive != 0 {
		t.Errorf("%d processes are left", e.Alive)
	}
	r.start("b", "exit 0")
	r.expect("gone", "b")
	r.start("c", leaver)
	r.kill(r.worker, syscall.SIGKILL)
	if e := r.expect("marked", ""); e.Alive != 0 {
		t.Errorf("marked with %d processes alive", e.Alive)
	}
}

func TestStopReachesWhatLeftTheGroup(t *testing.T) {
	r := newReplica(t, long)
	r.start("a", `setsid sh -c 'trap "echo polite; exit 0" TERM; echo ready; while :; do sleep 0.01; done' & wait`)
	r.expectText("line", "ready")
	r.stop("a", syscall.SIGTERM, patience)
	r.expectText("line", "polite")
	r.expect("gone", "a")
}

func TestStopFindsHiddenDescendants(t *testing.T) {
	r := newReplica(t, long)
	// The trap comes first: were the shell to end before a scan, nothing would show whose process that is.
	r.start("a", `trap "" TERM; env -i /usr/bin/setsid sh -c 'echo $$; exec sleep 1000' & wait; sleep 1000`)
	hidden := r.pidLine("a")
	r.stop("a", syscall.SIGTERM, 50*time.Millisecond)
	r.expect("gone", "a")
	if exists(hidden) {
		t.Errorf("process %d is left", hidden)
	}
}

func TestOrphansOfAnEndedCommandAreKilled(t *testing.T) {
	r := newReplica(t, long)
	r.do(deed{Do: "start", Session: r.session, Name: "a", Script: `setsid sleep 1000 & sleep 1001 & exit 4`})
	if e := r.expect("exited", "a"); e.Code != 4 {
		t.Errorf("exit %d, want 4", e.Code)
	}
	if e := r.expect("gone", "a"); e.Alive != 0 {
		t.Errorf("%d processes are left", e.Alive)
	}
}

func TestGoneBesideATaskThatLeavesOrphans(t *testing.T) {
	r := newReplica(t, long)
	r.start("busy", `echo ready; while :; do (sh -c ":" &); done`)
	r.expectText("line", "ready")
	for range 5 {
		r.start("a", `setsid sleep 1000 & exec sleep 1001`)
		r.stop("a", syscall.SIGTERM, 20*time.Millisecond)
		r.expect("gone", "a")
	}
	r.stop("busy", syscall.SIGKILL, 0)
	if e := r.expect("gone", "busy"); e.Alive != 0 {
		t.Errorf("%d processes are left", e.Alive)
	}
}

func TestStartCancelled(t *testing.T) {
	r := newReplica(t, long)
	r.do(deed{Do: "start", Session: r.session, Name: "a", Script: "exec sleep 1000", For: time.Nanosecond})
	r.expect("refused", "a")
	if left := marked(r.session); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
}

func TestFloodOfOutput(t *testing.T) {
	r := newReplica(t, long)
	for i := range 5 {
		r.do(deed{Do: "start", Session: r.session, Name: fmt.Sprint("flood", i), Script: "exec yes", Mute: true})
		r.expect("started", fmt.Sprint("flood", i))
	}
	r.do(deed{Do: "start", Session: r.session, Name: "a", Script: "exit 5"})
	if e := r.expect("exited", "a"); e.Code != 5 {
		t.Errorf("exit %d", e.Code)
	}
	r.stop("flood0", syscall.SIGTERM, patience)
	r.expect("gone", "flood0")
	r.kill(r.worker, syscall.SIGKILL)
	if e := r.expect("marked", ""); e.Alive != 0 {
		t.Errorf("marked with %d processes alive", e.Alive)
	}
}

func TestManyTasks(t *testing.T) {
	r := newReplica(t, long)
	const n = 100
	name := func(i int) string { return fmt.Sprintf("task-%03d", i) }
	began := time.Now()
	for i := range n {
		r.do(deed{Do: "start", Session: r.session, Name: name(i), Args: []string{"sleep", "1000"}})
	}
	var took []time.Duration
	for i := range n {
		took = append(took, r.expect("started", name(i)).Took)
	}
	slices.Sort(took)
	t.Logf("%d starts in %v, median %v, longest %v", n, time.Since(began), took[n/2], took[n-1])
	began = time.Now()
	for i := range n {
		r.stop(name(i), syscall.SIGTERM, patience)
	}
	for i := range n {
		r.expect("gone", name(i))
	}
	t.Logf("%d stops in %v", n, time.Since(began))
	began = time.Now()
	r.start("one", "exec sleep 1000")
	r.stop("one", syscall.SIGTERM, patience)
	r.expect("gone", "one")
	t.Logf("one start and stop in %v", time.Since(began))
}

// rounds is how often a test repeats what a race decides: SHARDCTL_GUARD_ROUNDS, or a few.
func rounds() int {
	if n, err := strconv.Atoi(os.Getenv("SHARDCTL_GUARD_ROUNDS")); err == nil {
		return n
	}
	return 150
}

// While something of a task is left, scans follow one another. What is started during one of them is spared.
func TestScansSpareWhatIsStartedMeanwhile(t *testing.T) {
	r := newReplica(t, 20*time.Minute)
	r.start("slow", `sh -c 'trap "" TERM; echo ready; exec sleep 1000' & wait`)
	r.expectText("line", "ready")
	r.stop("slow", syscall.SIGTERM, 10*time.Minute)
	r.expect("exited", "slow")
	for i := range rounds() {
		name := fmt.Sprint("fresh", i)
		// What it leaves for a moment is a child of the guard that only its environment tells.
		r.do(deed{Do: "start", Session: r.session, Name: name, Script: "setsid sleep 0.02 & exec sleep 0.03"})
		if e := r.expect("exited", name); e.Signal != 0 || e.Code != 0 {
			t.Fatalf("round %d: a task that no one stopped ended with signal %d, code %d", i, e.Signal, e.Code)
		}
		r.seen = nil
	}
}

// Once a task is gone nothing of it lives, also where it left a process that was about to execute another program.
func TestNothingLivesOnceATaskIsGone(t *testing.T) {
	r := newReplica(t, 20*time.Minute)
	for i := range rounds() {
		name := fmt.Sprint("task", i)
		r.do(deed{
			Do: "start", Session: r.session, Name: name, Script: "setsid nice env nice env nice sleep 1000 & exit 0",
		})
		r.expect("gone", name)
		time.Sleep(5 * time.Millisecond) // what was between two programs shows its environment again
		if left := marked(r.session); len(left) > 0 {
			t.Fatalf("round %d: %+v is left of a task that is gone", i, left)
		}
		r.seen = nil
	}
}

// The processor time of a command is that of all its processes, also in another group, and of those that have ended.
func TestProcessorTime(t *testing.T) {
	const burn = "while :; do :; done"
	r := newReplica(t, long)
	r.start("leader", burn)
	r.start("elsewhere", "setsid sh -c '"+burn+"' & wait")
	r.start("ended", "(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done); echo done; exec sleep 1000")
	r.start("idle", "exec sleep 1000")
	r.expect("line", "ended")
	const least = 100 * time.Millisecond
	measure := func() map[string]time.Duration {
		r.heartbeat()
		r.do(deed{Do: "measure"})
		return r.expect("used", "").Used
	}
	var used map[string]time.Duration
	until(t, "what burns has used something", func() bool {
		used = measure()
		return used["leader"] > least && used["elsewhere"] > least
	})
	if len(used) != 4 || used["ended"] < 10*time.Millisecond || used["idle"] > least {
		t.Errorf("used %v", used)
	}
	r.stop("leader", syscall.SIGKILL, 0)
	r.expect("gone", "leader")
	if again := measure(); len(again) != 3 || again["elsewhere"] < used["elsewhere"] {
		t.Errorf("used %v, then %v", used, again)
	}
}

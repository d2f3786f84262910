package guard

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/test/suites"
)

// needCgroups skips a test where no control groups may be made, and returns the one that guards started by it are in.
func needCgroups(t *testing.T) process.Cgroup {
	t.Helper()
	suites.Need(t, suites.Processes, "real processes")
	g := openCgroups(Config{Name: "trial", noCgroups: os.Getenv(envNoCgroups) != ""}, newJournal(logr.Discard()))
	defer g.close()
	if g.off {
		t.Skip("no control groups may be made here, or " + envNoCgroups + " is set")
	}
	return process.Cgroup(filepath.Dir(string(g.dir)))
}

// groupOf is the directory of the control group that a guard's runs are in.
func (r *replica) groupOf(pid int) process.Cgroup {
	r.t.Helper()
	parent, name, err := process.OwnCgroup()
	must(r.t, err)
	below, ok := strings.CutPrefix(process.CgroupOf(pid), strings.TrimSuffix(name, "/")+"/")
	if !ok || !guardGroup.MatchString(filepath.Dir(below)) {
		r.t.Fatalf("process %d is in %s, not in a run's below %s", pid, process.CgroupOf(pid), name)
	}
	return parent.Child(filepath.Dir(below))
}

// hidden leaves a process that nothing but its control group tells: its parents are dead, and it has another process
// group, another session and no environment.
const hidden = `(setsid sh -c 'env -i sleep 1000 & echo $!' &); `

// hide starts a task that leaves a hidden process, and returns both numbers.
func (r *replica) hide(then string) (pid, hiddenPID int) {
	r.t.Helper()
	const name = "a"
	pid = r.start(name, hidden+then)
	found := r.pidLine(name)
	r.t.Cleanup(func() { _ = syscall.Kill(found, syscall.SIGKILL) })
	until(r.t, "it is hidden", func() bool {
		p, ok := process.Read(found)
		m, sure := wire.MarksOf(found)
		return !ok || sure && m == wire.Marks{} && p.Parent == r.cmd.Process.Pid && p.Group != pid
	})
	return pid, found
}

func TestAHiddenProcessEndsWithItsRun(t *testing.T) {
	needCgroups(t)
	for name, c := range map[string]struct {
		then string
		end  func(r *replica)
	}{
		"asked to stop":    {"exec sleep 1001", func(r *replica) { r.stop("a", syscall.SIGTERM, patience) }},
		"killed":           {"exec sleep 1001", func(r *replica) { r.stop("a", syscall.SIGKILL, 0) }},
		"it does not stop": {`trap "" TERM; sleep 1001; sleep 1001`, func(r *replica) { r.stop("a", syscall.SIGTERM, 0) }},
		"ended by itself":  {"sleep 0.3", func(*replica) {}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplica(t, long)
			_, pid := r.hide(c.then)
			c.end(r)
			r.expect("gone", "a")
			if exists(pid) {
				t.Errorf("process %d of a task that is gone lives", pid)
			}
		})
	}
	t.Run("the worker died", func(t *testing.T) {
		r := newReplica(t, long)
		_, pid := r.hide("exec sleep 1001")
		r.kill(r.worker, syscall.SIGKILL)
		r.expect("marked", "")
		if exists(pid) {
			t.Errorf("process %d lives, and the session is marked dead", pid)
		}
	})
	t.Run("the guard died", func(t *testing.T) {
		r := newReplica(t, long)
		task, pid := r.hide("exec sleep 1001")
		group := r.groupOf(task)
		r.kill(r.cmd.Process.Pid, syscall.SIGKILL)
		r.expect("lost", "")
		until(t, "the hidden process is dead", func() bool { return !exists(pid) })
		until(t, "the group is removed", func() bool { return !there(group) })
	})
}

// Rounds of what a race could decide: what is left executes one program after the other as its run ends.
func TestNoHiddenProcessLivesOnceATaskIsGone(t *testing.T) {
	needCgroups(t)
	r := newReplica(t, 20*time.Minute)
	for i := range rounds() {
		r.do(deed{
			Do: "start", Session: r.session, Name: "a",
			Script: "setsid env -i nice env nice env nice sleep 1000 & echo $!; exit 0",
		})
		pid := r.pidLine("a")
		r.expect("gone", "a")
		if exists(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("round %d: process %d lives, and its task is gone", i, pid)
		}
		r.seen = nil
	}
}

// A guard that was killed together with its worker leaves what is not its child. The next one beside it ends that, and
// leaves alone what belongs to a guard that lives.
func TestTheNextGuardEndsWhatAKilledOneLeft(t *testing.T) {
	needCgroups(t)
	other := newReplica(t, long)
	spared := other.start("b", "exec sleep 1002")
	pid, group := leaveBehind(t)
	for tries := 1; !exists(pid) || !there(group); tries++ { // guards of other tests may be the next one as well
		if tries == 10 {
			t.Fatal("nothing is left: nothing was tested")
		}
		pid, group = leaveBehind(t)
	}
	next := launch(t)
	next.expectText("log", `"level"=0 "msg"="Ended what an earlier guard left"`)
	if exists(pid) || there(group) {
		t.Errorf("process %d lives %v, its group is there %v", pid, exists(pid), there(group))
	}
	if !exists(spared) || !there(other.groupOf(spared)) {
		t.Error("the task of a guard that lives was ended")
	}
}

// leaveBehind kills a guard together with its worker, and returns what it leaves.
func leaveBehind(t *testing.T) (pid int, left process.Cgroup) {
	t.Helper()
	r := newReplica(t, long)
	task, pid := r.hide("exec sleep 1001")
	left = r.groupOf(task)
	r.kill(r.worker, syscall.SIGSTOP) // so that it cannot do anything about it
	r.kill(r.cmd.Process.Pid, syscall.SIGKILL)
	r.kill(r.worker, syscall.SIGKILL)
	<-r.exited
	until(t, "the task itself is dead", func() bool { return !exists(task) })
	return pid, left
}

func TestControlGroupsAreRemoved(t *testing.T) {
	needCgroups(t)
	r := newReplica(t, long)
	group := r.groupOf(r.start("keeps", "exec sleep 1000"))
	if name := filepath.Base(string(group)); !strings.HasPrefix(name, "shardctl-guard.test.") {
		t.Errorf("the guard's group is called %s", name)
	}
	runs := func() int {
		found, err := filepath.Glob(string(group.Child("*.*.*/cgroup.events")))
		must(t, err)
		return len(found)
	}
	// A task may make groups below its own.
	r.start("nests", `g=$(find `+string(group)+` -name '*.g_nests') && mkdir $g/sub && echo ready && exec sleep 1001`)
	r.expectText("line", "ready")
	if runs() != 2 {
		t.Errorf("%d runs have a group, want 2", runs())
	}
	r.stop("nests", syscall.SIGTERM, patience)
	r.expect("gone", "nests")
	r.do(deed{Do: "start", Session: r.session, Name: "fails", Args: []string{"/no/such/file"}})
	r.expect("refused", "fails")
	until(t, "one group is left", func() bool { return runs() == 1 })
	r.stop("keeps", syscall.SIGTERM, patience)
	r.expect("gone", "keeps")
	r.do(deed{Do: "exit"})
	r.ended()
	until(t, "the guard's own is removed", func() bool { return !there(group) })
}

// What was moved out of its run's group is found as where there are none, and keeps its run from being gone.
func TestWhatWasMovedOutOfItsGroupIsFound(t *testing.T) {
	parent := needCgroups(t)
	r := newReplica(t, long)
	task := r.start("a", `(setsid sh -c 'echo $$ >`+string(parent)+`/cgroup.procs && echo $$ && exec sleep 1000' &)
exec sleep 1001`)
	moved := r.pidLine("a")
	group := r.groupOf(task)
	if in := process.CgroupOf(moved); strings.Contains(in, filepath.Base(string(group))) {
		t.Fatalf("it was not moved: it is in %s", in)
	}
	r.stop("a", syscall.SIGTERM, patience)
	if e := r.expect("gone", "a"); e.Alive != 0 || exists(moved) {
		t.Errorf("process %d lives %v", moved, exists(moved))
	}
}

// A run is gone when nothing lives in its group. That also holds for what is not the guard's descendant, whose end it
// hears of from the group alone.
func TestWhatWasMovedIntoAGroupEndsWithTheRun(t *testing.T) {
	needCgroups(t)
	foreign := exec.Command("sleep", "1000")
	must(t, foreign.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = foreign.Wait() // it is killed
	}()
	t.Cleanup(func() {
		_ = foreign.Process.Kill()
		<-ended
	})
	r := newReplica(t, long)
	task := r.start("a", "exec sleep 1001")
	procs := r.groupOf(task).Child(filepath.Base(process.CgroupOf(task))).Child("cgroup.procs")
	must(t, os.WriteFile(string(procs), []byte(strconv.Itoa(foreign.Process.Pid)), 0))
	r.stop("a", syscall.SIGTERM, 50*time.Millisecond)
	r.expect("gone", "a")
	if exists(foreign.Process.Pid) {
		t.Error("what was moved into the group lives, and the task is gone")
	}
}

// Where nothing may be started in a control group (a filter of system calls, a kernel before 5.7) the guard says so
// once, and looks for processes.
func TestNoCgroupsWhereNothingMayStartInThem(t *testing.T) {
	parent := needCgroups(t)
	t.Setenv(envNoClone3, "1")
	r := newReplica(t, long)
	for _, name := range []string{"a", "b"} {
		task := r.start(name, leaver)
		r.expectText("line", "ready")
		if in := process.CgroupOf(task); strings.Contains(in, "shardctl-guard") {
			t.Fatalf("it was started in %s", in)
		}
		r.stop(name, syscall.SIGTERM, 100*time.Millisecond)
		if e := r.expect("gone", name); e.Alive != 0 {
			t.Errorf("%d processes are left", e.Alive)
		}
	}
	said := 0
	for _, e := range r.seen {
		if e.Event == "log" && strings.Contains(e.Text, "no control groups any more") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("said %d times that there are none any more, want once, below %s", said, parent)
	}
}

// Where there are no groups, as in most containers, processes are found all the same.
func TestWithoutControlGroups(t *testing.T) {
	needCgroups(t) // where there are none, all tests go without
	t.Setenv(envNoCgroups, "1")
	for name, test := range map[string]func(*testing.T){
		"stop":            TestStopEndsEverything,
		"list":            TestGoneWithoutAListOfChildren,
		"other group":     TestStopReachesWhatLeftTheGroup,
		"hidden below":    TestStopFindsHiddenDescendants,
		"orphans":         TestOrphansOfAnEndedCommandAreKilled,
		"busy neighbour":  TestGoneBesideATaskThatLeavesOrphans,
		"worker killed":   TestWorkerKilled,
		"guard killed":    TestGuardKilled,
		"worker frozen":   TestDeadlineWithAFrozenWorker,
		"started between": TestScansSpareWhatIsStartedMeanwhile,
		"nothing lives":   TestNothingLivesOnceATaskIsGone,
		"processor time":  TestProcessorTime,
	} {
		t.Run(name, test)
	}
}

func there(group process.Cgroup) bool {
	_, err := os.Stat(string(group))
	return err == nil
}

// forbidClone3 has clone3 fail in this process and all that it starts, as a container's filter may.
func forbidClone3() {
	filter([]unix.SockFilter{
		{Code: load}, // the system call's number
		{Code: equal, K: unix.SYS_CLONE3, Jf: 1},
		{Code: give, K: fail | uint32(unix.ENOSYS)},
		{Code: give, K: allow},
	})
}

// forbidKill has the kernel refuse this process SIGKILL of any other, and all that it starts.
func forbidKill() {
	const secondArgument = 24 // of seccomp_data; the lower half, on a machine that begins with it
	filter([]unix.SockFilter{
		{Code: load},
		{Code: equal, K: unix.SYS_KILL, Jt: 1},
		{Code: equal, K: unix.SYS_PIDFD_SEND_SIGNAL, Jf: 3},
		{Code: load, K: secondArgument},
		{Code: equal, K: uint32(unix.SIGKILL), Jf: 1},
		{Code: give, K: fail | uint32(unix.EPERM)},
		{Code: give, K: allow},
	})
}

const (
	load        = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	equal       = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	give        = unix.BPF_RET | unix.BPF_K
	fail, allow = 0x00050000, 0x7fff0000 // SECCOMP_RET_ERRNO and SECCOMP_RET_ALLOW
)

// filter has a program decide on the system calls of this process, for good.
func filter(program []unix.SockFilter) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	const set, allThreads = 1, 1 // SECCOMP_SET_MODE_FILTER and SECCOMP_FILTER_FLAG_TSYNC
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, set, allThreads, uintptr(unsafe.Pointer(&filter))); errno != 0 {
		panic(errno)
	}
}

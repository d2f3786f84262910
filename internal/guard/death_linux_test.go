package guard

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestWorkerKilled(t *testing.T) {
	r := newReplica(t, long)
	r.do(deed{Do: "open", Session: "closed"})
	r.do(deed{Do: "close", Session: "closed"})
	r.do(deed{Do: "open", Session: "second"})
	r.do(deed{Do: "remote", Session: r.session, Name: "far", For: 30 * time.Second})
	r.do(deed{Do: "remote", Session: r.session, Name: "over", For: time.Nanosecond})
	r.start("a", leaver)
	r.start("b", `trap "" TERM; echo ready; while :; do sleep 1; done`)
	r.expectThat("ready", func(e event) bool { return e.Event == "line" && e.Name == "a" })
	r.expectThat("ready", func(e event) bool { return e.Event == "line" && e.Name == "b" })
	if !r.happened("prepared") {
		r.expect("prepared", "")
	}
	stood := testprocess.WatchStalls(t)
	r.kill(r.worker, syscall.SIGKILL)
	began := time.Now()
	until(t, "the tasks are gone", func() bool { return len(marked(r.session)) == 0 })
	t.Logf("the tasks were gone after %v", time.Since(began))
	e := r.expect("marked", "")
	if took := time.Since(began); took > time.Second+stood() {
		t.Errorf("the sessions were marked after %v, with two failures, want within 1 s", took)
	}
	t.Logf("the sessions were marked after %v, with two failures", time.Since(began))
	if e.Alive != 0 {
		t.Errorf("marked with %d processes alive", e.Alive)
	}
	if len(e.Marked) != 2 || e.Marked["second"] == nil {
		t.Errorf("marked %v", e.Marked)
	}
	remote := e.Marked[r.session]
	if left := remote[elect.NewKey("g", "far")]; len(remote) != 1 || left > 30*time.Second || left < 10*time.Second {
		t.Errorf("remote leases %v", remote)
	}
	if code := r.ended(); code != 128+9 {
		t.Errorf("status %d, want 137", code)
	}
}

// What may not be signalled after the worker's death keeps its key, and the session is kept for it: longer than the
// lease, and until it has ended or a second signal comes.
func TestWorkerKilledAndTasksMayNotBe(t *testing.T) {
	t.Setenv(envNoKill, "1")
	t.Setenv(envNoCgroups, "1")
	const lease = time.Second
	begin := func(t *testing.T) (r *replica, a int) {
		t.Helper()
		r = newReplica(t, lease)
		a = r.start("a", "exec sleep 1000")
		b := r.start("b", "exec sleep 1000")
		r.kill(r.worker, syscall.SIGKILL)
		r.expectText("kept", "a: true, b: true")
		r.kill(b, syscall.SIGKILL)
		r.expectText("kept", "a: true, b: false")
		for range 20 { // every tenth of the lease
			r.expectText("kept", "a: true, b: false")
		}
		if r.happened("marked") {
			t.Fatal("the session was marked dead while a task ran")
		}
		return r, a
	}
	t.Run("until they end", func(t *testing.T) {
		r, a := begin(t)
		r.kill(a, syscall.SIGKILL)
		if e := r.expect("marked", ""); e.Alive != 0 {
			t.Errorf("marked with %d processes alive", e.Alive)
		}
		if code := r.ended(); code != 128+9 {
			t.Errorf("status %d, want 137", code)
		}
	})
	t.Run("until a second signal", func(t *testing.T) {
		r, _ := begin(t)
		r.kill(r.cmd.Process.Pid, syscall.SIGTERM)
		r.expectText("kept", "a: true, b: false")
		r.kill(r.cmd.Process.Pid, syscall.SIGTERM)
		if e := r.expect("ended", ""); !strings.Contains(e.Error, "not marked dead") || r.happened("marked") {
			t.Errorf("ended with %q, marked: %v", e.Error, r.happened("marked"))
		}
	})
}

func TestGuardKilled(t *testing.T) {
	r := newReplica(t, long)
	direct := r.start("a", "exec sleep 1000")
	r.start("b", leaver)
	r.expectText("line", "ready")
	r.start("c", `env -i sleep 1000 & echo $!; wait`) // known by its group alone
	hidden := r.pidLine("c")
	until(t, "the environment is hidden", func() bool {
		m, sure := wire.MarksOf(hidden)
		return sure && m == wire.Marks{}
	})
	r.kill(r.cmd.Process.Pid, syscall.SIGKILL)
	r.expect("lost", "")
	until(t, "everything is gone", func() bool {
		return !exists(direct) && !exists(hidden) && len(marked(r.session)) == 0
	})
	until(t, "the worker has exited", func() bool { return !exists(r.worker) })
}

func TestBothKilled(t *testing.T) {
	r := newReplica(t, long)
	direct := r.start("a", "exec sleep 1000")
	r.kill(r.worker, syscall.SIGSTOP) // so that it cannot do anything about it
	r.kill(r.cmd.Process.Pid, syscall.SIGKILL)
	until(t, "the direct child is gone", func() bool { return !exists(direct) })
	r.kill(r.worker, syscall.SIGKILL)
}

func TestGuardFrozen(t *testing.T) {
	const lease = time.Second
	r := newReplica(t, lease)
	r.start("a", leaver)
	r.expectText("line", "ready")
	stood := testprocess.WatchStalls(t)
	began := time.Now()
	r.kill(r.cmd.Process.Pid, syscall.SIGSTOP)
	r.expect("lost", "")
	t.Logf("the worker gave the guard up after %v", time.Since(began))
	until(t, "everything is gone", func() bool { return len(marked(r.session)) == 0 })
	if took := time.Since(began); took > lease+stood() {
		t.Errorf("everything was gone after %v, of a lease of %v", took, lease)
	}
	// A guard that runs again before its worker has exited finds the socket closed, and kills the worker.
	until(t, "the worker has exited", func() bool { return !exists(r.worker) })
	r.kill(r.cmd.Process.Pid, syscall.SIGCONT)
	if code := r.ended(); code != 9 {
		t.Errorf("status %d, want the worker's 9", code)
	}
}

func TestDeadlineWithAFrozenWorker(t *testing.T) {
	const lease = time.Second
	r := newReplica(t, lease)
	r.do(deed{Do: "inside", Session: r.session, Name: "c"})
	r.do(deed{Do: "outside", Session: r.session, Name: "c"})
	r.start("a", leaver)
	r.start("b", `trap "" TERM; echo ready; while :; do sleep 1; done`)
	r.expectThat("ready", func(e event) bool { return e.Event == "line" && e.Name == "a" })
	r.expectThat("ready", func(e event) bool { return e.Event == "line" && e.Name == "b" })
	before := wire.Now() // the heartbeat is sent after this, so X is no earlier than this and 0.9 T
	r.heartbeat()
	r.do(deed{Do: "sync"})
	r.expect("synced", "")
	stood := testprocess.WatchStalls(t)
	r.kill(r.worker, syscall.SIGSTOP)
	until(t, "the tasks are gone", func() bool { return len(marked(r.session)) == 0 })
	took := wire.Now().HolderElapsed(before)
	t.Logf("gone %v after the heartbeat, of a lease of %v; the machine stood still for %v", took, lease, stood())
	if took > lease+stood() {
		t.Errorf("gone only %v after the heartbeat, X is %v, and T %v", took, lease*9/10, lease)
	}
	if took < lease*7/10 {
		t.Errorf("gone already %v after the heartbeat", took)
	}
	r.kill(r.worker, syscall.SIGCONT)
	r.expect("gone", "a")
	r.expect("gone", "b")
}

// A frozen worker that runs a task itself is killed at X, and its session is then marked. One whose run is over is not,
// as TestDeadlineWithAFrozenWorker shows.
func TestDeadlineWithAFrozenWorkerThatRunsATask(t *testing.T) {
	const lease = time.Second
	r := newReplica(t, lease)
	r.do(deed{Do: "inside", Session: r.session, Name: "a"})
	r.do(deed{Do: "inside", Session: r.session, Name: "b"})
	r.do(deed{Do: "outside", Session: r.session, Name: "b"})
	before := wire.Now() // the heartbeat is sent after this
	r.heartbeat()
	r.do(deed{Do: "sync"})
	r.expect("synced", "")
	r.kill(r.worker, syscall.SIGSTOP)
	r.expect("marked", "")
	if took := wire.Now().HolderElapsed(before); took < lease*9/10 {
		t.Errorf("marked already %v after the heartbeat, X is %v", took, lease*9/10)
	}
	if code := r.ended(); code != 128+9 {
		t.Errorf("status %d, want 137", code)
	}
}

// TestFrozenPastX thaws a replica whose deadlines have all passed meanwhile. What has not been killed yet is no alarm.
func TestFrozenPastX(t *testing.T) {
	const lease = time.Second
	r := newReplica(t, lease)
	r.start("a", leaver)
	r.expectText("line", "ready")
	r.heartbeat()
	r.do(deed{Do: "sync"})
	r.expect("synced", "")
	r.kill(r.cmd.Process.Pid, syscall.SIGSTOP)
	r.kill(r.worker, syscall.SIGSTOP)
	frozen := wire.Now()
	until(t, "X has passed", func() bool { return wire.Now().HolderElapsed(frozen) > lease })
	if len(marked(r.session)) == 0 {
		t.Fatal("the tasks ended while nothing could end them")
	}
	r.kill(r.worker, syscall.SIGCONT)
	r.kill(r.cmd.Process.Pid, syscall.SIGCONT)
	if e := r.expect("gone", "a"); e.Alive != 0 {
		t.Errorf("%d processes are left", e.Alive)
	}
	if r.happened("alarm") {
		t.Error("an alarm says that SIGKILL has not helped, before it was sent")
	}
}

func TestOrders(t *testing.T) {
	r := newReplica(t, long)
	r.start("a", "exec sleep 1000")
	r.kill(r.cmd.Process.Pid, syscall.SIGTSTP) // ignored
	r.kill(r.cmd.Process.Pid, syscall.SIGHUP)
	r.expectText("order", "reload")
	r.kill(r.cmd.Process.Pid, syscall.SIGTERM)
	r.expectText("order", "drain")
	r.stop("a", syscall.SIGTERM, patience)
	r.expect("gone", "a")
	r.do(deed{Do: "close", Session: r.session})
	r.do(deed{Do: "goodbye", Code: 0})
	if code := r.ended(); code != 0 {
		t.Errorf("status %d, want 0", code)
	}
	if r.happened("marked") {
		t.Error("a session that was closed was marked")
	}
}

func TestSecondSignalStopsHard(t *testing.T) {
	r := newReplica(t, long)
	r.start("a", `trap "" TERM; echo ready; while :; do sleep 1; done`)
	r.expectText("line", "ready")
	r.kill(r.cmd.Process.Pid, syscall.SIGTERM)
	r.expectText("order", "drain")
	r.kill(r.cmd.Process.Pid, syscall.SIGINT)
	r.expectText("order", "hardstop")
	if e := r.expect("marked", ""); e.Alive != 0 || len(e.Marked) != 1 {
		t.Errorf("marked %v with %d alive", e.Marked, e.Alive)
	}
	if code := r.ended(); code != 128+int(syscall.SIGINT) {
		t.Errorf("status %d, want 130", code)
	}
}

func TestShutdownTakesTooLong(t *testing.T) {
	r := launch(t)
	r.lease = long
	r.do(deed{Do: "hello", For: long, Limit: 200 * time.Millisecond})
	r.do(deed{Do: "open", Session: r.session})
	r.heartbeat()
	r.start("a", `trap "" TERM; echo ready; while :; do sleep 1; done`)
	r.expectText("line", "ready")
	r.kill(r.cmd.Process.Pid, syscall.SIGTERM)
	r.expect("gone", "a") // though it was not stopped
	if code := r.ended(); code != 128+9 {
		t.Errorf("status %d, want 137: the worker did not exit and is killed", code)
	}
}

// While the guard ends the tasks of a worker that died, no other process may take the lock of their place.
func TestALockIsHeldByTheGuardAsWell(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	r := newReplica(t, long)
	r.do(deed{Do: "lock", Name: path})
	r.do(deed{Do: "sync"})
	r.expect("synced", "")
	must(t, syscall.Kill(r.cmd.Process.Pid, syscall.SIGSTOP), syscall.Kill(r.worker, syscall.SIGKILL))
	until(t, "the worker is dead", func() bool { return !exists(r.worker) })
	if _, err := takeLock(path); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("taken while the guard is there: %v", err)
	}
	must(t, syscall.Kill(r.cmd.Process.Pid, syscall.SIGCONT))
	r.expect("marked", "")
	r.ended()
	until(t, "the lock is free", func() bool {
		lock, err := takeLock(path)
		if err == nil {
			_ = lock.Close()
		}
		return err == nil
	})
}

package guard

import (
	"os/exec"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// A worker that keeps others from the store is ended once its lease is over, and not for a moment's work.
func TestObstructingWorkerIsEnded(t *testing.T) {
	sleep := exec.CommandContext(t.Context(), "sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleep.Wait() }() // killed here, or by the guard
	defer func() { _ = sleep.Process.Kill() }()
	obstructs, asked := true, 0
	l := &ledger{}
	g := &keeper{
		cfg: Config{Obstructs: func(pid int) bool {
			asked++
			return obstructs && pid == sleep.Process.Pid
		}},
		lease: time.Second, sessions: map[string]*ledger{"s": l}, worker: worker{pid: sleep.Process.Pid}, notes: make(chan func(logr.Logger), 1),
	}
	now := Now()
	look := func(n int) {
		for range n {
			g.checkObstruction(now)
			now = now.Add(g.lease / 20)
		}
	}
	l.deadlines = DeadlinesFrom(now.Add(time.Hour), g.lease, g.lease/2)
	look(10)
	if asked > 0 || g.worker.killed {
		t.Fatal("while its lease goes on")
	}
	l.deadlines = DeadlinesFrom(now.Add(-g.lease), g.lease, g.lease/2)
	look(2)
	obstructs = false
	look(1)
	obstructs = true
	look(2)
	if g.worker.killed {
		t.Fatal("for a moment's work")
	}
	look(1)
	if !g.worker.killed {
		t.Error("not ended")
	}
}

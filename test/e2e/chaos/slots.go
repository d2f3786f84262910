//go:build linux

package chaos

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/test/e2e/harness"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// restartAfter is how soon the supervisor starts again what has ended.
const restartAfter = 300 * time.Millisecond

// crashed are the exit statuses of a guard that panics, of one whose worker has, and of a bad configuration. No fault
// explains them.
var crashed = []int{2, guard.ExitCrashed, cli.CodeConfig}

// slot is for a replica of one name.
type slot struct {
	name    string
	want    bool // the supervisor is to keep one running
	replica *harness.Replica
	hits    []string // faults that this process has suffered; without any it must not end
	ended   history.Instant
	frozen  *freeze // now

	application harness.Proc // the last that a fault of its own has hit
}

// running says whether a process is there.
func (p *slot) running() bool { return p.replica != nil && p.replica.Running() }

// tend notes what has ended, and starts what ought to run.
func (s *trial) tend() error {
	for _, p := range s.slots {
		if p.replica != nil && !p.replica.Running() {
			s.noteEnd(p)
			p.replica, p.ended = nil, history.Now()
		}
		if !p.want || p.replica != nil || history.Now().Sub(p.ended) < restartAfter {
			continue
		}
		r, err := s.cluster.StartWith(
			s.ctx, p.name, func(server, admin string) (string, error) { return s.config(p.name, server, admin) },
		)
		if err != nil {
			return err
		}
		p.replica, p.hits = r, nil
		s.line.Note("        %s started (%s)", p.name, filepath.Base(r.LogFile))
	}
	return nil
}

func (s *trial) noteEnd(p *slot) {
	state, err := p.replica.Wait(s.ctx)
	if err != nil {
		return
	}
	s.line.Note("        %s ended: %v", p.name, state)
	if slices.Contains(crashed, state.ExitCode()) {
		s.failures = append(
			s.failures, fmt.Sprintf("%s crashed at %s\n%s", p.name, s.line.since(history.Now()), p.replica.LogTail(60)),
		)
	}
	switch {
	case len(p.hits) > 0:
	case s.stalled():
		s.starved++
		s.line.Note("        %s ended by itself during a stall of the machine:\n%s", p.name, p.replica.LogTail(3))
	default:
		s.unexplained = append(s.unexplained, fmt.Sprintf(
			"%s ended by itself at %s: %v\n%s", p.name, s.line.since(history.Now()), state, p.replica.LogTail(40),
		))
	}
}

// signal hits a part of a replica.
func (s *trial) signal(p *slot, f Fault, part harness.Part, sig syscall.Signal) bool {
	if !p.running() {
		s.line.Note("        %s is not there", p.name)
		return false
	}
	p.hits = append(p.hits, string(f.Kind))
	if _, err := p.replica.Kill(part, sig); err != nil {
		s.line.Note("        %v", err)
		return false
	}
	return true
}

// killBoth kills guard and worker, and then what they could not take with them.
func (s *trial) killBoth(p *slot, f Fault) {
	// a guard alone marks its sessions
	if !s.signal(p, f, harness.Both, syscall.SIGKILL) && !s.signal(p, f, harness.Guard, syscall.SIGKILL) {
		return
	}
	swept := 0
	for _, proc := range tasksOf(s.cluster, p.name) {
		if proc.Signal(syscall.SIGKILL) == nil {
			swept++
		}
	}
	s.line.Note("        %s: %d processes were left and are killed", p.name, swept)
}

// tasksOf are the living processes of an instance's tasks.
func tasksOf(c *harness.Cluster, instance string) []harness.Proc {
	return slices.DeleteFunc(c.Leftovers(), func(p harness.Proc) bool {
		return process.Environ(p.PID, "SHARDCTL_INSTANCE")[0] != instance
	})
}

// freeze is one replica stopped whole. Its tasks cannot record from began to thawed.
type freeze struct {
	instance string
	began    history.Instant
	thawed   history.Instant // just before the first was asked to go on
	woken    history.Instant // when the guard had been asked to go on; 0: never
	tasks    []harness.Proc
}

// freeze stops a replica as a machine that stands still does.
func (s *trial) freeze(p *slot, f Fault) {
	if !s.signal(p, f, harness.Both, syscall.SIGSTOP) {
		_ = p.thaw() // the guard may be stopped already, and the worker not there
		return
	}
	z := &freeze{instance: p.name}
	for known := map[harness.Proc]bool{}; ; {
		tree, err := p.replica.TaskTree() // grows while tasks that are not stopped yet fork
		if err != nil {
			break
		}
		more := false
		for _, proc := range tree {
			if !known[proc] {
				known[proc], more = true, true
				_ = proc.Signal(syscall.SIGSTOP) // it may have ended
				z.tasks = append(z.tasks, proc)
			}
		}
		if !more {
			break
		}
	}
	z.began = history.Now()
	p.frozen = z
	s.freezes = append(s.freezes, z)
}

// melt lets a frozen replica go on: in one of the orders in which a machine may.
func (s *trial) melt(p *slot, f Fault) {
	z := p.frozen
	if z == nil {
		return
	}
	p.frozen = nil
	z.thawed = history.Now()
	tasks := func() {
		for _, proc := range z.tasks {
			_ = proc.Signal(syscall.SIGCONT) // it may have ended
		}
	}
	if f.Pick%2 == 0 {
		tasks()
	}
	err := p.thaw()
	z.woken = history.Now()
	if f.Pick%2 == 1 {
		tasks()
		z.woken = history.Now() // those that the guard did not reach before they went on, it reaches now
	}
	if err != nil {
		s.line.Note("        thaw: %v", err)
	}
}

// thaw lets whatever is stopped of guard and worker go on.
func (p *slot) thaw() error {
	if !p.running() {
		return nil
	}
	worker, err := p.replica.WorkerProc()
	if err == nil {
		err = worker.Signal(syscall.SIGCONT)
	}
	if guardErr := p.replica.GuardProc().Signal(syscall.SIGCONT); guardErr != nil {
		return guardErr
	}
	return err
}

//go:build linux

package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// Replica is one `shardctl run`: a guard, its worker and their tasks.
type Replica struct {
	Name    string
	LogFile string
	Config  string // path of its configuration
	Client  *Client

	cmd    *exec.Cmd
	guard  Proc
	exited chan struct{} // closed when the guard has been reaped

	began   history.Instant
	ended   history.Instant // once exited is closed
	touched history.Instant // when the first signal was sent that ends or stops a part; 0: never
}

// Part is what a signal goes to.
type Part int

// The parts of a replica.
const (
	Guard Part = iota
	Worker
	Both // the guard first, so that it has no moment to act on the worker's end
)

// startReplica starts the program and returns as soon as the process is there. args come after --config PATH.
func startReplica(program, config, logFile string, env []string, args ...string) (*Replica, error) {
	r, err := startProgram(program, logFile, env, append([]string{"run", "--config", config}, args...)...)
	if err != nil {
		return nil, err
	}
	r.Config = config
	return r, nil
}

func startProgram(program, logFile string, env []string, args ...string) (*Replica, error) {
	// Appending, so that a scenario may cut a log short that has grown large.
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	//nolint:noctx // its life is the scenario's: spawn ties it to the test process
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), env...)
	if err := spawn(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	r := &Replica{LogFile: logFile, cmd: cmd, exited: make(chan struct{}), began: history.Now()}
	r.guard, err = procOf(cmd.Process.Pid) // not reaped yet, so it is there
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		r.ended = history.Now()
		close(r.exited)
	}()
	return r, err
}

// GuardProc is the process that was started.
func (r *Replica) GuardProc() Proc { return r.guard }

// WorkerProc is the guard's child that runs the same program. A child that has been forked and does not yet run its
// command looks the same, but is younger.
func (r *Replica) WorkerProc() (Proc, error) {
	for _, child := range children(r.guard.PID) {
		if child.program() == r.guard.program() {
			return child, nil
		}
	}
	return Proc{}, fmt.Errorf("%s has no worker", r.Name)
}

// TaskProcs are the guard's children that run something else: its tasks' commands.
func (r *Replica) TaskProcs() []Proc {
	own := r.guard.program()
	var tasks []Proc
	for _, child := range children(r.guard.PID) {
		if program := child.program(); program != own && program != "" {
			tasks = append(tasks, child)
		}
	}
	return tasks
}

// Kill sends a signal and returns the instant just before the first was sent.
func (r *Replica) Kill(part Part, sig syscall.Signal) (history.Instant, error) {
	var targets []Proc
	if part != Worker {
		targets = append(targets, r.guard)
	}
	if part != Guard {
		worker, err := r.WorkerProc()
		if err != nil {
			return 0, err
		}
		targets = append(targets, worker)
	}
	at := history.Now()
	if r.touched == 0 && sig != syscall.SIGCONT && sig != syscall.SIGHUP {
		r.touched = at
	}
	for _, target := range targets {
		err := target.Signal(sig)
		if part == Both && errors.Is(err, os.ErrProcessDone) {
			continue // the worker has already ended for its guard's sake
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", r.Name, err)
		}
	}
	return at, nil
}

// Wait waits until the guard has ended and returns how.
func (r *Replica) Wait(ctx context.Context) (*os.ProcessState, error) {
	select {
	case <-r.exited:
		return r.cmd.ProcessState, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s still runs: %w", r.Name, context.Cause(ctx))
	}
}

// Running says whether the guard has not ended.
func (r *Replica) Running() bool {
	select {
	case <-r.exited:
		return false
	default:
		return true
	}
}

// Sound is the time in which it lived and no one had asked it to end, or stopped a part of it, up to now.
func (r *Replica) Sound() (from, to history.Instant) {
	to = history.Now()
	if !r.Running() {
		to = r.ended
	}
	if r.touched != 0 {
		to = min(to, r.touched)
	}
	return r.began, to
}

// Log is everything it wrote so far.
func (r *Replica) Log() string {
	data, err := os.ReadFile(r.LogFile)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// LogTail is the last lines it wrote.
func (r *Replica) LogTail(lines int) string {
	all := bytes.Split(bytes.TrimRight([]byte(r.Log()), "\n"), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// end kills what is left of it, without a word.
func (r *Replica) end() {
	worker, err := r.WorkerProc()
	_ = r.guard.Signal(syscall.SIGKILL)
	if err == nil {
		_ = worker.Signal(syscall.SIGKILL)
	}
	select {
	case <-r.exited:
	case <-time.After(5 * time.Second): // in a system call that does not end; the kernel finishes it later
	}
}

// CommandResult is what a command printed, and how it ended.
type CommandResult struct {
	Code           int
	Stdout, Stderr string
}

// Command runs `shardctl ARGS…` and waits for it. It is an error when it cannot be started or ctx ends first, not when
// it fails.
func Command(ctx context.Context, program string, args ...string) (CommandResult, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return CommandResult{}, fmt.Errorf("shardctl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return CommandResult{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}, nil
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/taskrun"
)

// ErrRefused says that the guard did not start a command, for a reason of its own.
var ErrRefused = errors.New("refused by the guard")

// startsAtOnce bounds the starts that wait for the guard's answer, and with them the descriptors on their way.
const startsAtOnce = 64

// Commands has the guard start commands, and follows those that have not ended yet. Its methods may be called
// concurrently. The zero value is not ready: see [Connect].
type Commands struct {
	conn   *wire.Conn
	starts chan struct{} // has an element for each start that waits for the guard's answer

	mu   sync.Mutex
	next uint64
	byID map[uint64]*command // those that have not ended
}

var _ taskrun.Starter = (*Commands)(nil)

func newCommands(conn *wire.Conn) *Commands {
	return &Commands{conn: conn, starts: make(chan struct{}, startsAtOnce), byID: map[uint64]*command{}}
}

// Start has the guard start a command. It returns once that runs, or with an error that says nothing of it is left. So
// when ctx ends first, it still waits until what was started is gone.
func (s *Commands) Start(ctx context.Context, cmd taskrun.Command) (taskrun.Process, error) {
	p, err := s.StartPassing(ctx, cmd)
	if err != nil {
		return nil, err // without a type: a nil of one is none
	}
	return p, nil
}

// Process is a command that can be passed signals.
type Process interface {
	taskrun.Process
	// Pass gives the command's group a signal, which may mean anything to it. It returns at once.
	Pass(signal syscall.Signal)
}

// StartPassing is Start for a command that is to be passed signals.
func (s *Commands) StartPassing(ctx context.Context, cmd taskrun.Command) (Process, error) {
	m := wire.Start{
		Key: cmd.Key, Session: cmd.Session, Token: cmd.Token, Args: cmd.Args, Env: cmd.Environ, Dir: cmd.Dir,
	}
	files := passFiles(cmd, &m)
	var err error
	if m.Path, err = resolve(ctx, cmd); err != nil {
		process.CloseFiles(files...)
		return nil, fmt.Errorf("start %s: %w", cmd.Key, err)
	}
	select {
	case s.starts <- struct{}{}:
		defer func() { <-s.starts }()
	case <-ctx.Done():
		process.CloseFiles(files...)
		return nil, fmt.Errorf("start %s: %w", cmd.Key, context.Cause(ctx))
	case <-s.conn.Down():
		process.CloseFiles(files...)
		return nil, fmt.Errorf("start %s: %w", cmd.Key, ErrLost)
	}
	p := s.register()
	m.ID = p.id
	if err := s.conn.Send(m, files...); err != nil {
		s.forget(p.id)
		return nil, failed("start "+string(cmd.Key), err)
	}
	if err := p.awaitStart(ctx); err != nil {
		err = process.Explain(ctx, process.Spec{Path: m.Path, Args: m.Args, Env: m.Env, Dir: m.Dir}, err)
		return nil, fmt.Errorf("start %s: %w", cmd.Key, err)
	}
	return p, nil
}

// register makes a command that is about to be started.
func (s *Commands) register() *command {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	p := &command{
		conn: s.conn, id: s.next,
		answered: make(chan struct{}), exited: make(chan struct{}), gone: make(chan struct{}),
	}
	s.byID[p.id] = p
	return p
}

func (s *Commands) forget(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

// progress passes on what became of a command, which is over with the last of it.
func (s *Commands) progress(id uint64, body any, last bool) {
	s.mu.Lock()
	p := s.byID[id]
	if last {
		delete(s.byID, id)
	}
	s.mu.Unlock()
	if p != nil {
		p.progress(body)
	}
}

// lose ends all commands as far as is known, and returns their groups.
func (s *Commands) lose() (groups map[int]bool) {
	s.mu.Lock()
	lost := s.byID
	s.byID = map[uint64]*command{}
	s.mu.Unlock()
	groups = map[int]bool{}
	for _, p := range lost {
		if pid := p.PID(); pid > 0 {
			groups[pid] = true
		}
		p.lost()
	}
	return groups
}

// passFiles returns the files to pass with a start, and notes in it which is which. One may serve for two.
func passFiles(cmd taskrun.Command, m *wire.Start) (files []*os.File) {
	number := func(f *os.File) int {
		if f == nil {
			return 0
		}
		if i := slices.Index(files, f); i >= 0 {
			return i + 1
		}
		files = append(files, f)
		return len(files)
	}
	m.Stdin, m.Stdout, m.Stderr = number(cmd.Stdin), number(cmd.Stdout), number(cmd.Stderr)
	return files
}

// maxCommand bounds the bytes of arguments and environment. The kernel takes 6 MiB at most.
const maxCommand = 8 << 20

// resolve finds the command's program, and waits until its file systems have answered. It does so here, where that
// holds up this command alone, and not in the guard.
func resolve(ctx context.Context, cmd taskrun.Command) (string, error) {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return "", fmt.Errorf("%w: no command", ErrRefused)
	}
	size := len(cmd.Dir)
	for _, s := range slices.Concat(cmd.Args, cmd.Environ) {
		size += len(s)
	}
	if size > maxCommand {
		return "", fmt.Errorf("arguments and environment of %d bytes: %w", size, syscall.E2BIG)
	}
	return process.Resolve(ctx, cmd.Args[0], cmd.Environ, cmd.Dir)
}

// command is a command that the guard runs, as the worker sees it.
type command struct {
	conn *wire.Conn
	id   uint64

	mu  sync.Mutex
	pid int

	answered chan struct{} // closed when the start was answered
	refusal  error         // set before answered is closed
	exited   chan struct{}
	exit     taskrun.Exit // set before exited is closed
	gone     chan struct{}
}

// awaitStart waits for the guard's answer. When ctx ends first, the command is killed, if it was started.
func (p *command) awaitStart(ctx context.Context) error {
	select {
	case <-p.answered:
		return p.refusal
	case <-p.conn.Down():
		return ErrLost
	case <-ctx.Done():
	}
	p.Stop(syscall.SIGKILL, 0)
	select {
	case <-p.answered:
		if p.refusal != nil {
			return p.refusal
		}
	case <-p.conn.Down():
		return ErrLost
	}
	select {
	case <-p.gone:
		return context.Cause(ctx)
	case <-p.conn.Down():
		return ErrLost
	}
}

// progress takes what the guard reports. It is called from one goroutine, in order.
func (p *command) progress(body any) {
	switch b := body.(type) {
	case wire.Started:
		p.refusal = refusal(b)
		p.mu.Lock()
		p.pid = b.PID
		p.mu.Unlock()
		close(p.answered)
	case wire.Exited:
		p.exit = taskrun.Exit{Code: b.Code}
		if b.Signal != 0 {
			p.exit = taskrun.Exit{Code: -1, Signal: b.Signal}
		}
		close(p.exited)
	case wire.Gone:
		close(p.gone)
	}
}

// refusal is why a start failed, nil when it succeeded. errors.Is works with fs.ErrNotExist and the like.
func refusal(s wire.Started) error {
	switch {
	case s.Error == "":
		return nil
	case s.Errno != 0:
		return startError{s.Error, s.Errno}
	default:
		return fmt.Errorf("%s: %w", s.Error, ErrRefused)
	}
}

// startError is an error that came as text, and the number that its text ends with.
type startError struct {
	text  string
	errno syscall.Errno
}

func (r startError) Error() string { return r.text }

// Unwrap gives the number.
func (r startError) Unwrap() error { return r.errno }

// lost ends the process as far as is known: Gone stays open.
func (p *command) lost() {
	select {
	case <-p.exited:
	default:
		p.exit = taskrun.Exit{Code: -1, Err: ErrLost}
		close(p.exited)
	}
}

// PID is the command's process id.
func (p *command) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// lastSignal is the largest number of a signal.
const lastSignal = 64

// Stop asks the guard to end the command: signal to its group, SIGKILL after grace. Should the guard be gone,
// everything is being killed anyway.
func (p *command) Stop(signal os.Signal, grace time.Duration) {
	number, ok := signal.(syscall.Signal)
	if !ok || number < 1 || number > lastSignal {
		number = syscall.SIGTERM
	}
	_ = p.conn.Send(wire.Stop{ID: p.id, Signal: number, Grace: max(grace, 0)})
}

// Pass implements [Process].
func (p *command) Pass(signal syscall.Signal) { _ = p.conn.Send(wire.Pass{ID: p.id, Signal: signal}) }

// Exited is closed when the command itself has ended.
func (p *command) Exited() <-chan struct{} { return p.exited }

// Gone is closed when nothing of the command is left. It stays open when the guard is lost: see [Client.Lost].
func (p *command) Gone() <-chan struct{} { return p.gone }

// Exit is how the command ended; valid once Exited is closed.
func (p *command) Exit() taskrun.Exit { return p.exit }

// killFor is how long a worker that lost its guard goes on looking for processes to kill.
const killFor = 500 * time.Millisecond

// targets describes processes to be killed: their groups, the session in their environment, or their control group.
type targets struct {
	groups   map[int]bool
	sessions map[string]bool
	cgroup   process.Cgroup // empty: there is none
}

// kill kills the targets that this process can find and everything below them, again and again until none is found
// twice or the time is over. One that executes a program at that moment is not found.
func (t targets) kill(until time.Time) {
	if !process.CanFind {
		for group := range t.groups {
			process.SignalGroup(group, unix.SIGKILL)
		}
		return
	}
	if t.cgroup != "" {
		_ = t.cgroup.Kill() // what was moved out of it is found below
		defer func() {
			t.cgroup.AwaitEmpty(time.Until(until))
			_ = t.cgroup.Remove() // else the next guard that starts beside it does
		}()
	}
	for empty := 0; ; time.Sleep(5 * time.Millisecond) {
		found := t.find()
		for _, p := range found {
			_ = p.Signal(unix.SIGKILL) // what may not be signalled is looked for until the end, in vain
		}
		if empty++; len(found) > 0 {
			empty = 0
		}
		if empty == 2 || !time.Now().Before(until) {
			return
		}
	}
}

func (t targets) find() []process.Proc {
	all, err := process.All()
	if err != nil {
		return nil
	}
	tree, self := process.TreeOf(all), os.Getpid()
	var found []process.Proc
	taken := map[int]bool{self: true}
	for _, p := range all {
		if p.Zombie || p.PID == self || !t.match(p) {
			continue
		}
		for _, q := range tree.Below(p) {
			if !taken[q.PID] {
				taken[q.PID] = true
				found = append(found, q)
			}
		}
	}
	return found
}

func (t targets) match(p process.Proc) bool {
	if t.groups[p.Group] {
		return true
	}
	m, _ := wire.MarksOf(p.PID)
	return t.sessions[m.Session]
}

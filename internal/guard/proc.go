package guard

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// proc is a command that the guard runs, as the worker sees it.
type proc struct {
	client *Client
	id     uint64

	mu  sync.Mutex
	pid int

	answered chan struct{} // closed when the start was answered
	refusal  error         // set before answered is closed
	exited   chan struct{}
	exit     tasks.Exit // set before exited is closed
	gone     chan struct{}
}

var _ tasks.Process = (*proc)(nil)

// Start has the guard start a command. It returns once that runs, or with an error that says nothing of it is left;
// so when ctx ends first, it still waits until what was started is gone.
func (c *Client) Start(ctx context.Context, cmd tasks.Command) (tasks.Process, error) {
	files, passed := filesOf(cmd)
	path, err := resolve(ctx, cmd)
	if err != nil {
		closeFiles(files)
		return nil, fmt.Errorf("start %s: %w", cmd.Key, err)
	}
	select {
	case c.starts <- struct{}{}:
		defer func() { <-c.starts }()
	case <-ctx.Done():
		closeFiles(files)
		return nil, fmt.Errorf("start %s: %w", cmd.Key, context.Cause(ctx))
	case <-c.conn.down:
		closeFiles(files)
		return nil, fmt.Errorf("start %s: %w", cmd.Key, ErrLost)
	}
	p := c.register()
	if err := c.conn.send(&start{
		ID: p.id, Key: cmd.Key, Session: cmd.Session, Token: cmd.Token,
		Path: []byte(path), Args: bytesOf(cmd.Args), Env: bytesOf(cmd.Env), Dir: []byte(cmd.Dir), Files: passed,
	}, files...); err != nil {
		c.forget(p)
		return nil, fmt.Errorf("start %s: %w: %w", cmd.Key, ErrLost, err)
	}
	if err := p.awaitStart(ctx); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Key, err)
	}
	return p, nil
}

// Bits of start.Files: which files were passed, in this order.
const (
	passedStdin = 1 << iota
	passedStdout
	passedStderr
)

func filesOf(cmd tasks.Command) ([]*os.File, int) {
	var files []*os.File
	passed := 0
	if cmd.Stdin != nil {
		files, passed = append(files, cmd.Stdin), passed|passedStdin
	}
	if cmd.Stdout != nil {
		files, passed = append(files, cmd.Stdout), passed|passedStdout
	}
	switch cmd.Stderr {
	case nil:
	case cmd.Stdout:
		passed |= passedStderr // one file for both
	default:
		files, passed = append(files, cmd.Stderr), passed|passedStderr
	}
	return files, passed
}

// resolve finds the command's program, and waits until its file systems have answered: here, where that holds up this
// command alone, and not in the guard.
func resolve(ctx context.Context, cmd tasks.Command) (string, error) {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return "", fmt.Errorf("%w: no command", ErrRefused)
	}
	size := len(cmd.Dir)
	for _, s := range slices.Concat(cmd.Args, cmd.Env) {
		size += len(s)
	}
	if size > maxFrame/2 {
		return "", fmt.Errorf("arguments and environment of %d bytes: %w", size, syscall.E2BIG)
	}
	return process.Resolve(ctx, cmd.Args[0], cmd.Env, cmd.Dir)
}

func (c *Client) register() *proc {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	p := &proc{
		client: c, id: c.next,
		answered: make(chan struct{}), exited: make(chan struct{}), gone: make(chan struct{}),
	}
	c.procs[p.id] = p
	return p
}

func (c *Client) forget(p *proc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.procs, p.id)
}

// awaitStart waits for the guard's answer. When ctx ends first, the command is killed, if it was started.
func (p *proc) awaitStart(ctx context.Context) error {
	select {
	case <-p.answered:
		return p.refusal
	case <-p.client.conn.down:
		return ErrLost
	case <-ctx.Done():
	}
	p.Stop(syscall.SIGKILL, 0)
	select {
	case <-p.answered:
		if p.refusal != nil {
			return p.refusal
		}
	case <-p.client.conn.down:
		return ErrLost
	}
	select {
	case <-p.gone:
		return context.Cause(ctx)
	case <-p.client.conn.down:
		return ErrLost
	}
}

// progress takes the guard's word. It is called from one goroutine, in order.
func (p *proc) progress(b body) {
	switch b := b.(type) {
	case *started:
		p.refusal = b.err()
		p.mu.Lock()
		p.pid = b.PID
		p.mu.Unlock()
		close(p.answered)
	case *exited:
		p.exit = tasks.Exit{Code: b.Code}
		if b.Signal != 0 {
			p.exit = tasks.Exit{Code: -1, Signal: syscall.Signal(b.Signal)}
		}
		close(p.exited)
	case *gone:
		close(p.gone)
	}
}

// lost ends the process as far as is known: Gone stays open.
func (p *proc) lost() {
	select {
	case <-p.exited:
	default:
		p.exit = tasks.Exit{Code: -1, Err: ErrLost}
		close(p.exited)
	}
}

// PID is the command's process id.
func (p *proc) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// Stop asks the guard to end the command: signal to its group, SIGKILL after grace. Should the guard be gone,
// everything is being killed anyway.
func (p *proc) Stop(signal os.Signal, grace time.Duration) {
	number, ok := signal.(syscall.Signal)
	if !ok || number < 1 || number > lastSignal {
		number = syscall.SIGTERM
	}
	_ = p.client.conn.send(&stop{ID: p.id, Signal: int(number), Grace: max(grace, 0)})
}

// Exited is closed when the command itself has ended.
func (p *proc) Exited() <-chan struct{} { return p.exited }

// Gone is closed when nothing of the command is left. It stays open when the guard is lost: see [Client.Lost].
func (p *proc) Gone() <-chan struct{} { return p.gone }

// Exit is how the command ended; valid once Exited is closed.
func (p *proc) Exit() tasks.Exit { return p.exit }

// bytesOf turns strings into what travels.
func bytesOf(in []string) [][]byte {
	out := make([][]byte, len(in))
	for i, s := range in {
		out[i] = []byte(s)
	}
	return out
}

// stringsOf turns what travelled into strings again.
func stringsOf(in [][]byte) []string {
	out := make([]string, len(in))
	for i, b := range in {
		out[i] = string(b)
	}
	return out
}

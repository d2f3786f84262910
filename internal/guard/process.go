package guard

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// process is a command that the guard runs, as the worker sees it.
type process struct {
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

var _ tasks.Process = (*process)(nil)

// Start has the guard start a command. It returns once that runs, or with an error that says nothing of it is left;
// so when ctx ends first, it still waits until what was started is gone.
func (c *Client) Start(ctx context.Context, cmd tasks.Command) (tasks.Process, error) {
	files, outputs := outputsOf(cmd)
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
	m, err := startMessage(cmd, outputs, files)
	if err != nil {
		closeFiles(files)
		return nil, fmt.Errorf("start %s: %w", cmd.Key, err)
	}
	p := c.register()
	m.ID = p.id
	if err := c.conn.send(m); err != nil {
		c.forget(p)
		return nil, fmt.Errorf("start %s: %w: %w", cmd.Key, ErrLost, err)
	}
	if err := p.awaitStart(ctx); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Key, err)
	}
	return p, nil
}

// Bits of message.Code in a start: which files were passed, in this order.
const (
	passedStdin = 1 << iota
	passedStdout
	passedStderr
)

func outputsOf(cmd tasks.Command) ([]*os.File, int) {
	var files []*os.File
	outputs := 0
	if cmd.Stdin != nil {
		files, outputs = append(files, cmd.Stdin), outputs|passedStdin
	}
	if cmd.Stdout != nil {
		files, outputs = append(files, cmd.Stdout), outputs|passedStdout
	}
	switch cmd.Stderr {
	case nil:
	case cmd.Stdout:
		outputs |= passedStderr // one file for both
	default:
		files, outputs = append(files, cmd.Stderr), outputs|passedStderr
	}
	return files, outputs
}

func startMessage(cmd tasks.Command, outputs int, files []*os.File) (message, error) {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return message{}, fmt.Errorf("%w: no command", ErrRefused)
	}
	size := len(cmd.Dir)
	for _, s := range slices.Concat(cmd.Args, cmd.Env) {
		size += len(s)
	}
	if size > maxFrame/2 {
		return message{}, fmt.Errorf("arguments and environment of %d bytes: %w", size, syscall.E2BIG)
	}
	path, err := lookPath(cmd.Args[0], cmd.Env)
	if err != nil {
		return message{}, err
	}
	return message{Kind: kindStart, Code: outputs, files: files, Start: &start{
		Key: cmd.Key, Session: cmd.Session, Token: cmd.Token, Path: []byte(path),
		Args: bytesOf(cmd.Args), Env: bytesOf(cmd.Env), Dir: []byte(cmd.Dir),
	}}, nil
}

// lookPath finds a command as a shell would, in the PATH that the command itself gets. A name with a slash is taken as it
// is: relative to the command's directory.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := os.Getenv("PATH")
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // "." in PATH would run whatever lies about
		}
		file := filepath.Join(dir, name)
		info, err := os.Stat(file) //nolint:gosec // G703: running what the configuration names is what this program is for
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: not found in PATH: %w", name, os.ErrNotExist)
}

func (c *Client) register() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	p := &process{
		client: c, id: c.next,
		answered: make(chan struct{}), exited: make(chan struct{}), gone: make(chan struct{}),
	}
	c.procs[p.id] = p
	return p
}

func (c *Client) forget(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.procs, p.id)
}

// awaitStart waits for the guard's answer. When ctx ends first, the command is killed, if it was started.
func (p *process) awaitStart(ctx context.Context) error {
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
func (p *process) progress(m message) {
	switch m.Kind { //nolint:exhaustive // the client passes on these three only
	case kindStarted:
		if m.Error != "" {
			p.refusal = m.startError()
		}
		p.mu.Lock()
		p.pid = m.PID
		p.mu.Unlock()
		close(p.answered)
	case kindExited:
		p.exit = tasks.Exit{Code: m.Code}
		if m.Signal != 0 {
			p.exit = tasks.Exit{Code: -1, Signal: syscall.Signal(m.Signal)}
		}
		close(p.exited)
	case kindGone:
		close(p.gone)
	}
}

// lost ends the process as far as anybody can tell: Gone stays open, since nobody knows.
func (p *process) lost() {
	select {
	case <-p.exited:
	default:
		p.exit = tasks.Exit{Code: -1, Err: ErrLost}
		close(p.exited)
	}
}

// PID is the command's process id.
func (p *process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// Stop asks the guard to end the command: signal to its group, SIGKILL after grace. Should the guard be gone, everything is
// being killed anyway.
func (p *process) Stop(signal os.Signal, grace time.Duration) {
	number, ok := signal.(syscall.Signal)
	if !ok {
		number = syscall.SIGTERM
	}
	_ = p.client.conn.send(message{Kind: kindStop, ID: p.id, Signal: int(number), Grace: max(grace, 0)})
}

// Exited is closed when the command itself has ended.
func (p *process) Exited() <-chan struct{} { return p.exited }

// Gone is closed when nothing of the command is left. It stays open when the guard is lost: see [Client.Lost].
func (p *process) Gone() <-chan struct{} { return p.gone }

// Exit tells how the command ended; valid once Exited is closed.
func (p *process) Exit() tasks.Exit { return p.exit }

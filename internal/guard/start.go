package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Start has the guard start a command. It returns once that runs, or with an error that says nothing of it is left. So
// when ctx ends first, it still waits until what was started is gone.
func (c *Client) Start(ctx context.Context, cmd tasks.Command) (tasks.Process, error) {
	p, err := c.StartPassing(ctx, cmd)
	if err != nil {
		return nil, err // without a type: a nil of one is none
	}
	return p, nil
}

// Process is a command that can be passed signals.
type Process interface {
	tasks.Process
	// Pass gives the command's group a signal, which may mean anything to it. It returns at once.
	Pass(signal syscall.Signal)
}

// StartPassing is Start for a command that is to be passed signals.
func (c *Client) StartPassing(ctx context.Context, cmd tasks.Command) (Process, error) {
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
	p := c.procs.register(c.conn)
	if err := c.conn.send(&start{
		ID: p.id, Key: cmd.Key, Session: cmd.Session, Token: cmd.Token,
		Path: []byte(path), Args: bytesOf(cmd.Args), Env: bytesOf(cmd.Environ), Dir: []byte(cmd.Dir), Files: passed,
	}, files...); err != nil {
		c.procs.forget(p.id)
		why := ErrLost
		if errors.Is(err, errUnsendable) {
			why = ErrRefused
		}
		return nil, fmt.Errorf("start %s: %w: %w", cmd.Key, why, err)
	}
	if err := p.awaitStart(ctx); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Key, err)
	}
	return p, nil
}

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

// resolve finds the command's program, and waits until its file systems have answered. It does so here, where that
// holds up this command alone, and not in the guard.
func resolve(ctx context.Context, cmd tasks.Command) (string, error) {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return "", fmt.Errorf("%w: no command", ErrRefused)
	}
	size := len(cmd.Dir)
	for _, s := range slices.Concat(cmd.Args, cmd.Environ) {
		size += len(s)
	}
	if size > maxFrame/2 {
		return "", fmt.Errorf("arguments and environment of %d bytes: %w", size, syscall.E2BIG)
	}
	return process.Resolve(ctx, cmd.Args[0], cmd.Environ, cmd.Dir)
}

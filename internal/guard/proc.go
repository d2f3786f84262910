package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
)

var (
	// ErrLost says that the guard is gone: the worker must exit, without marking its session.
	ErrLost = errors.New("the guard is gone")
	// ErrRefused says that the guard did not start a command, for a reason of its own.
	ErrRefused = errors.New("refused by the guard")
)

// proc is a command that the guard runs, as the worker sees it.
type proc struct {
	conn *conn
	id   uint64

	mu  sync.Mutex
	pid int

	answered chan struct{} // closed when the start was answered
	refusal  error         // set before answered is closed
	exited   chan struct{}
	exit     tasks.Exit // set before exited is closed
	gone     chan struct{}
}

var _ tasks.Process = (*proc)(nil)

// awaitStart waits for the guard's answer. When ctx ends first, the command is killed, if it was started.
func (p *proc) awaitStart(ctx context.Context) error {
	select {
	case <-p.answered:
		return p.refusal
	case <-p.conn.down:
		return ErrLost
	case <-ctx.Done():
	}
	p.Stop(syscall.SIGKILL, 0)
	select {
	case <-p.answered:
		if p.refusal != nil {
			return p.refusal
		}
	case <-p.conn.down:
		return ErrLost
	}
	select {
	case <-p.gone:
		return context.Cause(ctx)
	case <-p.conn.down:
		return ErrLost
	}
}

// progress takes the guard's word. It is called from one goroutine, in order.
func (p *proc) progress(b body) {
	switch b := b.(type) {
	case *started:
		p.refusal = refusal(b)
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

// refusal is why a start failed, nil when it succeeded. errors.Is works with fs.ErrNotExist and the like.
func refusal(s *started) error {
	switch {
	case s.Error == "":
		return nil
	case s.Errno != 0:
		return fmt.Errorf("%s: %w", s.Error, syscall.Errno(s.Errno))
	default:
		return fmt.Errorf("%s: %w", s.Error, ErrRefused)
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
	_ = p.conn.send(&stop{ID: p.id, Signal: int(number), Grace: max(grace, 0)})
}

// Pass implements [Process].
func (p *proc) Pass(signal syscall.Signal) { _ = p.conn.send(&pass{ID: p.id, Signal: int(signal)}) }

// Exited is closed when the command itself has ended.
func (p *proc) Exited() <-chan struct{} { return p.exited }

// Gone is closed when nothing of the command is left. It stays open when the guard is lost: see [Client.Lost].
func (p *proc) Gone() <-chan struct{} { return p.gone }

// Exit is how the command ended; valid once Exited is closed.
func (p *proc) Exit() tasks.Exit { return p.exit }

//go:build linux

package stores

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/test/e2e/history"
)

// LockerCommand is the first argument that makes this program one process that locks a mutex.
const LockerCommand = "locker"

// Locker is the main function of such a process. Its argument is the URI of the store. It says "ready", and reads
// orders, a line each:
//
//	pass              locks and unlocks:  got INSTANT, and then gave
//	race HOW N MS     N callers lock and unlock for so long, fair or unfair:  raced TURNS
func Locker(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("%q: want the URI of a store", args)
	}
	var locks *mutex.Locks
	err := lab.Until(ctx, func() (err error) { // on a busy machine a set-up may take longer than one call
		locks, err = here(ctx, args[0])
		return err
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var how string
		var callers, ms int
		if lines.Text() == "pass" {
			err = pass(ctx, locks, out)
		} else if _, err = fmt.Sscanf(lines.Text(), "race %s %d %d", &how, &callers, &ms); err == nil {
			m := locks.Mutex(mutexName)
			if how == "unfair" {
				m = m.Unfair()
			}
			turns := race(ctx, m, callers, time.Duration(ms)*time.Millisecond)
			_, err = fmt.Fprintln(out, "raced", turns)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
	}
	return locks.Close(ctx)
}

func pass(ctx context.Context, locks *mutex.Locks, out io.Writer) error {
	held, err := locks.Mutex(mutexName).Lock(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "got", int64(history.Now())); err != nil {
		return err
	}
	if err := held.Unlock(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "gave")
	return err
}

// race is how often callers had the mutex. Who waits in the end gives up.
func race(ctx context.Context, m mutex.Mutex, callers int, d time.Duration) int64 {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var turns atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for {
				held, err := m.Lock(limited)
				if err != nil {
					return
				}
				turns.Add(1)
				_ = held.Unlock(ctx) // what is lost is no turn of anybody
			}
		})
	}
	all.Wait()
	return turns.Load()
}

// locker is such a process, as its parent sees it.
type locker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startLocker(ctx context.Context, uri string) (*locker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	l := &locker{cmd: exec.CommandContext(ctx, self, LockerCommand, uri)} //nolint:gosec // this program
	l.cmd.Stderr = os.Stderr
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	l.out = bufio.NewScanner(out)
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	return l, l.said("ready")
}

func (l *locker) tell(format string, args ...any) error {
	_, err := fmt.Fprintf(l.in, format+"\n", args...)
	return err
}

// said reads the next line.
func (l *locker) said(format string, args ...any) error {
	if !l.out.Scan() {
		return fmt.Errorf("the process that locks has ended: %w", io.ErrUnexpectedEOF)
	}
	if len(args) == 0 && strings.TrimSpace(l.out.Text()) == format {
		return nil
	}
	if _, err := fmt.Sscanf(l.out.Text(), format, args...); err != nil {
		return fmt.Errorf("it says %q, want %q: %w", l.out.Text(), format, err)
	}
	return nil
}

// end has it end in order.
func (l *locker) end() {
	_ = l.in.Close()
	_ = l.cmd.Wait() // what it held is released, or lost with its session
}

// spread is a moment by chance within the interval at which a store may be polled.
func spread() time.Duration { return rand.N(restSpread) } //nolint:gosec // a moment, not a secret

// counting is a store that counts what is written.
type counting struct {
	store.Store
	changes atomic.Int64
}

func (c *counting) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	c.changes.Add(int64(len(changes)))
	return c.Store.Apply(ctx, changes...)
}

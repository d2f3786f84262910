//go:build linux

package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// member is a holder, seen by its parent. Its methods may be called concurrently.
type member struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	errs  *strings.Builder // what it says besides; to be read when it has ended
	ended chan struct{}

	mu      sync.Mutex
	waiting map[string]chan answer // by key: one order at a time
}

// answer is how an order ended.
type answer struct {
	begin, end history.Instant
	err        error
}

func (a answer) took() time.Duration { return a.end.Sub(a.begin) }

// openLimit bounds the opening of a holder, answerLimit one order.
const (
	openLimit   = 30 * time.Second
	answerLimit = time.Minute
)

// startMember starts a holder and waits until it is ready.
func startMember(ctx context.Context, p Peer, t target) (*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := &member{errs: &strings.Builder{}, ended: make(chan struct{}), waiting: map[string]chan answer{}}
	m.cmd = exec.CommandContext(ctx, self, HolderCommand, "-peer", p.id, "-uri", t.uri, "-token", t.token, "-name",
		t.name, "-lease", t.lease.String()) //nolint:gosec // this program
	m.cmd.Stderr = m.errs
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	opened := m.expect("-")
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	go m.read(out)
	ctx, cancel := context.WithTimeoutCause(ctx, openLimit, fmt.Errorf("%s: not open within %v", p.id, openLimit))
	defer cancel()
	if a := m.await(ctx, opened); a.err != nil {
		m.kill()
		return nil, fmt.Errorf("%w: %s", a.err, m.errs)
	}
	return m, nil
}

func (m *member) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var verb, key string
		var a answer
		if _, err := fmt.Sscan(lines.Text(), &verb, &key); err != nil {
			continue
		}
		rest := strings.TrimPrefix(lines.Text(), verb+" "+key+" ")
		if verb == "failed" {
			a.err = errors.New(rest)
		} else if _, err := fmt.Sscan(rest, &a.begin, &a.end); err != nil {
			a.err = fmt.Errorf("%q: %w", lines.Text(), err)
		}
		m.mu.Lock()
		waiting := m.waiting[key]
		delete(m.waiting, key)
		m.mu.Unlock()
		if waiting != nil {
			waiting <- a
		}
	}
	_ = m.cmd.Wait() // it was killed, or its error is in errs
	close(m.ended)
}

func (m *member) expect(key string) <-chan answer {
	c := make(chan answer, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting[key] = c
	return c
}

// order sends one order; its answer comes over the channel.
func (m *member) order(verb, key string) <-chan answer {
	c := m.expect(key)
	_, _ = io.WriteString(m.in, verb+" "+key+"\n") // when it has ended, await says so
	return c
}

// do sends an order and waits for its answer.
func (m *member) do(ctx context.Context, verb, key string) (answer, error) {
	a := m.await(ctx, m.order(verb, key))
	if a.err != nil {
		return a, fmt.Errorf("%s %s: %w", verb, key, a.err)
	}
	return a, nil
}

func (m *member) await(ctx context.Context, c <-chan answer) answer {
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("no answer within %v", answerLimit))
	defer cancel()
	select {
	case a := <-c:
		return a
	case <-m.ended:
		return answer{err: fmt.Errorf("the holder ended: %s", m.errs)}
	case <-ctx.Done():
		return answer{err: context.Cause(ctx)}
	}
}

// signal freezes it or lets it go on.
func (m *member) signal(s syscall.Signal) history.Instant {
	_ = m.cmd.Process.Signal(s) // it may have ended, which await says
	return history.Now()
}

// kill ends it with SIGKILL and returns when that was sent.
func (m *member) kill() history.Instant {
	at := history.Now()
	_ = m.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-m.ended
	return at
}

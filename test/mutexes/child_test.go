//go:build unix

package mutexes

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
)

const (
	childEnv = "MUTEXES_TEST_CHILD" // the store's URI: this process is a child
	name     = "reports/monthly"
	lease    = 5 * time.Second
	patience = 90 * time.Second // of what should take a moment
)

func lasts(c *elect.Config) { c.LeaseDuration = lease }

// child carries out commands, a line each, until its input ends. It says what became of each call:
//
//	pass N       waits, and gives it back: got N and its turn, after that: gave N
//	hold N       waits, and then acts until its context ends: got N and its turn, acts N, …, after that: lost N CAUSE
func child(uri string, in io.Reader, out io.Writer) error {
	ctx := context.Background()
	locks, err := mutex.Open(ctx, uri, lasts)
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Config{URI: uri})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(ctx) }()
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(out, format+"\n", args...)
	}
	var calls sync.WaitGroup
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		what, n, _ := strings.Cut(lines.Text(), " ")
		calls.Go(func() {
			before, err := document(ctx, db)
			if err != nil {
				say("failed %s %v", n, err)
				return
			}
			held, err := locks.Mutex(name).Lock(ctx)
			if err != nil {
				say("failed %s %v", n, err)
				return
			}
			is, err := document(ctx, db)
			if err != nil {
				say("failed %s %v", n, err)
				return
			}
			say("got %s %v", n, turnOf(held.Token(), before.Rev, is))
			if what == "hold" {
				mine := held.Context()
				for mine.Err() == nil {
					say("acts %s", n)
					time.Sleep(50 * time.Millisecond)
				}
				say("lost %s %v", n, context.Cause(mine)) //nolint:contextcheck // the hold's
			}
			if err := held.Unlock(ctx); err != nil {
				say("failed %s %v", n, err)
				return
			}
			say("gave %s", n)
		})
	}
	calls.Wait()
	return locks.Close(ctx)
}

// peer is such a child.
type peer struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	said  chan string // lines; closed when it has ended
	ended chan error
}

func start(t *testing.T, uri string) *peer {
	t.Helper()
	self, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, cmd: exec.Command(self), said: make(chan string, 10_000), ended: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+uri)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = process.OwnGroup()
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.said <- lines.Text()
		}
		close(p.said)
		p.ended <- p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGKILL)
	})
	return p
}

func (p *peer) tell(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// line is the next one that begins so.
func (p *peer) line(begins string) string {
	p.t.Helper()
	late := time.After(patience)
	for {
		select {
		case line, ok := <-p.said:
			if !ok {
				p.t.Fatalf("it ended without saying %q", begins)
			}
			if strings.HasPrefix(line, "failed") && begins != "failed" {
				p.t.Fatal(line)
			}
			if strings.HasPrefix(line, begins) {
				return line
			}
		case <-late:
			p.t.Fatalf("it does not say %q", begins)
		}
	}
}

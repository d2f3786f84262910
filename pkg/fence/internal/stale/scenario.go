//go:build unix

package stale

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/process"
)

// patience bounds the wait for a line. Leases run out meanwhile, and machines of tests are slow.
const patience = 2 * time.Minute

// Run plays the scenario on a place of this kind. At its end the stale owner writes without the fence, and succeeds: so
// it was the fence that refused it.
func Run(t *testing.T, kinds Kinds, kind, target string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes, and waits for the end of a lease")
	}
	place, err := kinds[kind](t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	holds := func(want string) {
		t.Helper()
		if got, err := place.Read(t.Context()); err != nil || got != want {
			t.Fatalf("there stands %q, %v; want %q", got, err, want)
		}
	}
	store := filepath.Join(t.TempDir(), "locks.db")
	threads := process.NewThread()
	t.Cleanup(threads.Close)
	start := func(instance string) *owner { return startOwner(t, threads, kind, target, store, instance) }

	first := start("first")
	older := first.owns(t)
	first.tell(t, "write by the first")
	first.answers(t, "wrote")
	first.signal(t, syscall.SIGSTOP)

	second := start("second")
	if newer := second.owns(t); newer <= older {
		t.Fatalf("the second token %d is not above %d", newer, older)
	}
	second.tell(t, "write by the second")
	second.answers(t, "wrote")

	first.tell(t, "write by the thawed one") // it waits in a pipe
	first.signal(t, syscall.SIGCONT)
	first.answers(t, "refused")
	holds("by the second")

	first.tell(t, "bare by the thawed one")
	first.answers(t, "wrote")
	holds("by the thawed one")
}

// owner is one process.
type owner struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

func startOwner(t *testing.T, threads *process.Thread, kind, target, store, instance string) *owner {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program) //nolint:gosec // this test
	cmd.Env = append(os.Environ(), envKind+"="+kind, envTarget+"="+target, envStore+"="+store, envInstance+"="+instance)
	cmd.SysProcAttr = process.OwnGroup() // it dies with this process, also when it is frozen
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := threads.Start(cmd); err != nil {
		t.Fatal(err)
	}
	o := &owner{cmd: cmd, in: in, lines: make(chan string, 10)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(o.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			o.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait() // it was killed
	})
	return o
}

func (o *owner) line(t *testing.T) string {
	t.Helper()
	select {
	case line, open := <-o.lines:
		if !open {
			t.Fatal("the owner has ended")
		}
		return line
	case <-time.After(patience):
		t.Fatalf("waited %s for a line of the owner", patience)
		return ""
	}
}

// owns waits until it owns the key, and returns its token.
func (o *owner) owns(t *testing.T) int64 {
	t.Helper()
	text, ok := strings.CutPrefix(o.line(t), "owns ")
	token, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		t.Fatalf("it says %q, %v", text, err)
	}
	return token
}

func (o *owner) tell(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(o.in, line); err != nil {
		t.Fatal(err)
	}
}

func (o *owner) answers(t *testing.T, want string) {
	t.Helper()
	if got := o.line(t); got != want {
		t.Fatalf("it says %q, want %q", got, want)
	}
}

func (o *owner) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := o.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

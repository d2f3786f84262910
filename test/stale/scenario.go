//go:build unix

package stale

import (
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/sqlite"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testprocess"
)

// Run plays the scenario on a place of this kind. At its end the stale owner writes without the fence, and succeeds: so
// it was the fence that refused it.
func Run(t *testing.T, kinds Kinds, kind, target string) {
	t.Helper()
	suites.Need(t, suites.Processes, "real processes and the end of a lease")
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
	start := func(instance string) owner { return startOwner(t, kind, target, store, instance) }

	first := start("first")
	older := first.owns(t)
	first.Tell(t, "write by the first")
	first.answers(t, "wrote")
	first.freezeBetweenWrites(t, store)

	second := start("second")
	if newer := second.owns(t); newer <= older {
		t.Fatalf("the second token %d is not above %d", newer, older)
	}
	second.Tell(t, "write by the second")
	second.answers(t, "wrote")

	first.Tell(t, "write by the thawed one") // it waits in a pipe
	first.Signal(t, syscall.SIGCONT)
	first.answers(t, "refused")
	holds("by the second")

	first.Tell(t, "bare by the thawed one")
	first.answers(t, "wrote")
	holds("by the thawed one")
}

// owner is one process.
type owner struct{ *testprocess.Again }

func startOwner(t *testing.T, kind, target, store, instance string) owner {
	t.Helper()
	return owner{testprocess.StartAgain(t, envKind+"="+kind, envTarget+"="+target, envStore+"="+store,
		envInstance+"="+instance)}
}

// owns waits until it owns the key, and returns its token.
func (o owner) owns(t *testing.T) int64 {
	t.Helper()
	text, ok := strings.CutPrefix(o.Line(t), "owns ")
	token, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		t.Fatalf("it says %q, %v", text, err)
	}
	return token
}

// freezeBetweenWrites stops the owner while it does not hold the write lock of the store. Else no other owner could
// follow, as long as it is stopped.
func (o owner) freezeBetweenWrites(t *testing.T, store string) {
	t.Helper()
	for {
		o.Freeze(t)
		writes, err := sqlite.HoldsWriteLock(store, o.PID())
		if err != nil {
			t.Fatal(err)
		}
		if !writes {
			return
		}
		o.Signal(t, syscall.SIGCONT)
	}
}

func (o owner) answers(t *testing.T, want string) {
	t.Helper()
	if got := o.Line(t); got != want {
		t.Fatalf("it says %q, want %q", got, want)
	}
}

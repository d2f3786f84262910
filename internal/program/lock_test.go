//go:build unix

package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
)

// section has a command say when it begins and ends. What is between must be there alone.
const section = `echo "begin $SHARDCTL_FENCING_TOKEN" >> log; sleep 0.03; echo "end $SHARDCTL_FENCING_TOKEN" >> log`

func TestLockExcludes(t *testing.T) { onLockStores(t, excludes) }

// On each further store the same.
func TestLockOnAServer(t *testing.T) { onServers(t, excludes) }

// Ten processes, of which some go before those that wait: no two commands run at the same time, and tokens rise.
func excludes(r lockRig) {
	const processes = 10
	var all []*lockRun
	for i := range processes {
		var flags []string
		if i%3 == 0 {
			flags = []string{"--unfair"}
		}
		all = append(all, r.sh(section, flags...))
	}
	for i, l := range all {
		l.want(fmt.Sprintf("process %d", i), 0)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "log"))
	if err != nil {
		r.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var last int64
	for i := 0; i+1 < len(lines); i += 2 {
		token, err := strconv.ParseInt(strings.TrimPrefix(lines[i], "begin "), 10, 64)
		if err != nil || lines[i+1] != fmt.Sprint("end ", token) || token <= last {
			r.t.Fatalf("lines %d and %d, after token %d: %q, %q", i, i+1, last, lines[i], lines[i+1])
		}
		last = token
	}
	if len(lines) != 2*processes {
		r.t.Errorf("%d lines, want %d", len(lines), 2*processes)
	}
	if left := r.document(); len(left.Queue)+len(left.Holders) > 0 {
		r.t.Errorf("left: %+v", left)
	}
}

func TestLockExitCodes(t *testing.T) {
	onLockStores(t, func(r lockRig) {
		r.sh("exit 7").want("the command's own", 7)
		r.sh("true").want("success", 0)
		r.sh("kill -9 $$").want("a signal", 137)
		r.start("k", "--", "./no-such-file").want("no file", 69, "no-such-file", "no such file", "check its name")
		r.start("k", "--", "no-such-program").want("not in PATH", 69, "no-such-program", "PATH")
		r.start("k", "--", "/").want("no program", 69, "permission denied", "may be executed")
		holder := r.sh("echo > held; sleep 1000")
		r.wrote("held")
		r.sh("echo > wrong", "-n").want("not waiting", 1)
		r.sh("echo > wrong", "-w", "2", "-E", "9").want("waiting for a time", 9)
		r.sh("echo > wrong", "-w", "0").want("waiting for no time", 1)
		r.sh("echo > wrong", "-n", "--verbose", "-E", "0").want("saying why", 0, "locks/k is locked by others")
		if _, err := os.Stat(filepath.Join(r.dir, "wrong")); err == nil {
			r.t.Error("a command ran without the lock")
		}
		if left := r.document(); len(left.Queue) > 0 || len(left.Holders) != 1 {
			r.t.Errorf("those who do not wait any more have left %+v", left)
		}
		holder.signal(syscall.SIGTERM)
		holder.want("a signal that is passed on", 143)
		r.sh("true", "-n").want("given back", 0)
	})
}

// The command has its standard files, and in its environment the lock and not the store.
func TestLockCommandHasItsSurroundings(t *testing.T) {
	r := sqliteRig(t)
	t.Setenv(envStoreURI, r.uri)
	cmd := program(t.Context(), t, "lock", "k", "--", "sh", "-c",
		"cat; env | grep ^SHARDCTL_ | grep -v ^SHARDCTL_TEST | sort; echo error >&2")
	cmd.Stdin = strings.NewReader("input\n")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || errs.String() != "error\n" {
		t.Fatalf("%v: %s%s", err, out, errs.String())
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, want := range []string{
		"input", "SHARDCTL_FENCING_TOKEN=", "SHARDCTL_INSTANCE=" + host, "SHARDCTL_KEY=locks/k", "SHARDCTL_SESSION=",
	} {
		if len(lines) != 5 || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("line %d: want %s…\n%s", i, want, out)
		}
	}
}

func TestLockShared(t *testing.T) {
	onLockStores(t, func(r lockRig) {
		together := `echo > %s; until test -e %s; do sleep 0.01; done; until test -e over; do sleep 0.01; done`
		a := r.sh(fmt.Sprintf(together, "a", "b"), "--shared")
		b := r.sh(fmt.Sprintf(together, "b", "a"), "-s")
		r.wrote("a")
		r.wrote("b")
		r.sh("true", "-n").want("alone beside readers", 1)
		r.sh("true", "-n", "--shared").want("a third reader", 0)
		writer := r.sh("echo > c; until test -e over2; do sleep 0.01; done")
		r.queued(1)
		r.sh("true", "-n", "--shared").want("a reader that would overtake a writer", 1)
		r.write("over")
		a.want("a reader", 0)
		b.want("a reader", 0)
		r.wrote("c")
		r.sh("true", "-n", "--shared").want("a reader beside a writer", 1)
		r.write("over2")
		writer.want("the writer", 0)
	})
}

func (r lockRig) write(name string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// A program that has the same key as a mutex keeps the command out, and one line says what to do.
func TestLockBesideAMutex(t *testing.T) {
	r := sqliteRig(t)
	locks, err := mutex.Open(t.Context(), r.uri)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locks.Close(t.Context()) }()
	held, err := locks.Mutex("k").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.sh("true").want("beside a mutex", 1, `locks/k is in use by a program as a mutex`, `RWMutex("k")`)
	if err := held.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	writes, err := locks.RWMutex("k").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.sh("true", "-n").want("beside a writer", 1)
	if err := writes.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.sh("true").want("alone", 0)
}

func TestLockHoldAtLeast(t *testing.T) {
	onLockStores(t, func(r lockRig) {
		began := time.Now()
		r.sh("true", "--hold-at-least", "5s").want("a short command", 0)
		early := r.sh("true", "-n")
		if code := early.code(); code != 1 && time.Since(began) < 5*time.Second {
			r.t.Errorf("code %d within the time: %s", code, early.errs.String())
		}
		r.sh("true").want("the next", 0)
		if took := time.Since(began); took < 4*time.Second {
			r.t.Errorf("the next came after %v", took)
		}
	})
}

// A command that does not end after --max-hold is killed, with what it started, and the lock is free.
func TestLockMaxHold(t *testing.T) {
	onLockStores(t, func(r lockRig) {
		l := r.sh(`trap "echo > asked" TERM; sleep 1000 & echo $! > child; while :; do wait; done`, "--max-hold", "1s")
		l.want("a command that does not end", 75, "--max-hold 1s", "locks/k")
		r.wrote("asked")
		r.gone(r.wrote("child"))
		r.sh("true", "-n").want("the next", 0)
	})
}

// Signals reach the command, as often as they are sent, and its own exit code counts.
func TestLockPassesSignalsOn(t *testing.T) {
	onLockStores(t, func(r lockRig) {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
			name := strconv.Itoa(int(s))
			l := r.sh(`n=0; trap 'n=$((n+1)); echo > got` + name + `-$n; test $n = 2 && exit 5' ` + name +
				`; echo > up` + name + `; while :; do sleep 0.01; done`)
			r.wrote("up" + name)
			l.signal(s)
			r.wrote("got" + name + "-1")
			l.signal(s)
			if code := l.code(); code != 5 { // shells write of children that a signal ended
				r.t.Errorf("%v: code %d, want 5: %s", s, code, l.errs.String())
			}
		}
	})
}

// As under nohup, or in the background of a script: what is ignored at the start is ignored by all of it.
func TestLockLeavesIgnoredSignalsIgnored(t *testing.T) {
	r := sqliteRig(t)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		name := strconv.Itoa(int(s))
		// The command is spared its own signal, and both processes of shardctl theirs. SIGTERM ends it afterwards.
		l := r.startBy([]string{"sh", "-c", "trap '' " + name + `; exec "$@"`, "sh"}, "k", "--", "sh", "-c",
			"kill -"+name+" $$ && echo > spared"+name+"; exec sleep 1000")
		r.wrote("spared" + name)
		l.signal(s)
		l.signal(syscall.SIGTERM)
		l.want(s.String()+" ignored, and then SIGTERM", 143)
		waiting := r.sh("echo > held" + name + "; exec sleep 1000")
		r.wrote("held" + name)
		l = r.startBy([]string{"sh", "-c", "trap '' " + name + `; exec "$@"`, "sh"}, "k", "--", "true")
		r.queued(1)
		l.signal(s)
		l.signal(syscall.SIGTERM)
		l.want(s.String()+" ignored while it waits, and then SIGTERM", 143)
		waiting.signal(syscall.SIGTERM)
		waiting.want("the holder", 143)
	}
}

// A signal to one that waits ends the waiting, and it leaves the queue.
func TestLockGivesUpWaiting(t *testing.T) {
	onLockStores(t, func(r lockRig) {
		holder := r.sh("echo > held; sleep 1000")
		r.wrote("held")
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
			l := r.sh("true")
			r.queued(1)
			l.signal(s)
			l.want(s.String(), 128+int(s))
			r.queued(0)
		}
		holder.signal(syscall.SIGTERM)
		holder.want("the holder", 143)
	})
}

// Somebody marks the session of the holder dead: its command ends, and 75 says why.
func TestLockLeaseLost(t *testing.T) {
	onLockStores(t, func(r lockRig) {
		l := r.sh(`trap "" TERM; sleep 1000 & echo $! > child; echo $SHARDCTL_SESSION > session; while :; do wait; done`,
			"--lease", "5s")
		session := r.wrote("session")
		db, err := store.Open(r.t.Context(), store.Config{URI: r.uri})
		if err != nil {
			r.t.Fatal(err)
		}
		defer func() { _ = db.Close(r.t.Context()) }()
		if err := electing.MarkDead(r.t.Context(), db, electing.Session{ID: session}); err != nil {
			r.t.Fatal(err)
		}
		l.want("the lease lost", 75, "the lease of locks/k was lost")
		r.gone(r.wrote("child"))
		r.sh("true", "-n").want("the next, long before the lease would end", 0)
	})
}

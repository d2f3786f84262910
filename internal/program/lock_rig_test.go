//go:build unix

package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testservers"
)

// lockRig is a store, and a directory in which commands leave what they have done.
type lockRig struct {
	t   *testing.T
	uri string
	dir string
}

// lockRun is one `shardctl lock`.
type lockRun struct {
	rig       lockRig
	cmd       *exec.Cmd
	out, errs bytes.Buffer
	ended     chan struct{}
}

// onLockStores runs a test on SQLite, and at night on a real MongoDB beside it: it mostly waits for leases.
func onLockStores(t *testing.T, test func(lockRig)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(sqliteRig(t))
	})
	t.Run("MongoDB", func(t *testing.T) {
		suites.NeedWhole(t, suites.Mongo, "a real MongoDB")
		t.Parallel()
		test(lockRig{t, testmongo.Shared(t), t.TempDir()})
	})
}

// sqliteRig is a store on SQLite. The tests on it belong to the suite of processes; those on a server belong to that of
// the server.
func sqliteRig(t *testing.T) lockRig {
	t.Helper()
	suites.Need(t, suites.Processes, "real processes")
	dir := t.TempDir()
	return lockRig{t, "sqlite:" + filepath.Join(dir, "locks.db"), dir}
}

// start starts `shardctl lock --store URI ARGS`, in the directory of the rig. What is still there at the end is killed.
func (r lockRig) start(args ...string) *lockRun {
	r.t.Helper()
	return r.startBy(nil, args...)
}

// startBy is start by another program, which is given the command line and executes it.
func (r lockRig) startBy(by []string, args ...string) *lockRun {
	r.t.Helper()
	cmd := program(context.WithoutCancel(r.t.Context()), r.t,
		append([]string{"lock", "--store", "$(" + envLockStore + ")"}, args...)...)
	if len(by) > 0 {
		cmd.Args = append(append(by, cmd.Path), cmd.Args[1:]...)
		cmd.Path = "/bin/" + by[0]
	}
	run := &lockRun{rig: r, cmd: cmd, ended: make(chan struct{})}
	cmd.Env = append(cmd.Env, envLockStore+"="+r.uri)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, &run.out, &run.errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal, whatever runs the test
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // its status is looked at
		close(run.ended)
	}()
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Process.Signal(syscall.SIGCONT)
		<-run.ended
		if r.t.Failed() {
			r.t.Logf("%v: %v\n%s", cmd.Args[1:], cmd.ProcessState, run.errs.String())
		}
	})
	return run
}

// envLockStore has the store's URI: it may hold a password, and is on no command line.
const envLockStore = "LOCK_TEST_STORE"

// sh starts a shell script under the lock k.
func (r lockRig) sh(script string, flags ...string) *lockRun {
	r.t.Helper()
	return r.start(append(append([]string{"k"}, flags...), "--", "sh", "-c", script)...)
}

// code waits for the end.
func (l *lockRun) code() int {
	l.rig.t.Helper()
	select {
	case <-l.ended:
	case <-time.After(programLimit):
		l.rig.t.Fatalf("%v has not ended within %v", l.cmd.Args, programLimit)
	}
	status, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return -int(status.Signal())
	}
	return l.cmd.ProcessState.ExitCode()
}

// want says how it is to end, and which words stand in its one line of errors; none: it says nothing. A warning while it
// waits is another line, and whether it comes hangs on how long that is.
func (l *lockRun) want(what string, code int, says ...string) {
	l.rig.t.Helper()
	got := l.code()
	errs, lines := "", 0
	for line := range strings.Lines(l.errs.String()) {
		if !strings.Contains(line, "fail again and again") {
			errs += line
		}
	}
	if len(says) > 0 {
		lines = 1
	}
	if got != code || strings.Count(errs, "\n") != lines {
		l.rig.t.Errorf("%s: code %d, want %d with %d lines of errors:\n%s", what, got, code, lines, errs)
	}
	for _, s := range says {
		if !strings.Contains(errs, s) {
			l.rig.t.Errorf("%s: %q, want %q", what, errs, s)
		}
	}
}

func (l *lockRun) signal(s syscall.Signal) {
	l.rig.t.Helper()
	if err := l.cmd.Process.Signal(s); err != nil {
		l.rig.t.Fatal(err)
	}
}

// wrote waits until a command has written a file, and returns its text.
func (r lockRig) wrote(name string) string {
	r.t.Helper()
	var text []byte
	r.await("a command writes "+name, func() (err error) {
		if text, err = os.ReadFile(filepath.Join(r.dir, name)); err == nil && !bytes.HasSuffix(text, []byte("\n")) {
			err = fmt.Errorf("%q is not complete", text)
		}
		return err
	})
	return strings.TrimSpace(string(text))
}

// wrote is that of the rig, unless this command ends before.
func (l *lockRun) wrote(name string) string {
	l.rig.t.Helper()
	l.rig.await("the command writes "+name, func() error {
		_, err := os.Stat(filepath.Join(l.rig.dir, name))
		select {
		case <-l.ended:
			return errors.Join(err, errOver)
		default:
			return err
		}
	})
	return l.rig.wrote(name)
}

// errOver says that a condition cannot hold any more.
var errOver = errors.New("the program has ended")

// await waits until a condition holds.
func (r lockRig) await(what string, holds func() error) {
	r.t.Helper()
	for end := time.Now().Add(programLimit); ; time.Sleep(5 * time.Millisecond) {
		err := holds()
		switch {
		case err == nil:
			return
		case errors.Is(err, errOver), time.Now().After(end):
			r.t.Fatalf("not within %v: %s: %v", programLimit, what, err)
		}
	}
}

// number is the process ID that a command wrote.
func (r lockRig) number(pid string) int {
	r.t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		r.t.Fatal(err)
	}
	return number
}

// gone waits until a process is no more.
func (r lockRig) gone(pid string) {
	r.t.Helper()
	number := r.number(pid)
	r.await("process "+pid+" is gone", func() error {
		if err := syscall.Kill(number, 0); err == nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}

// document is the lock k as it stands in the store.
func (r lockRig) document() protocol.MutexDoc {
	r.t.Helper()
	db, err := store.Open(r.t.Context(), store.Config{URI: r.uri})
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(r.t.Context())) }()
	reply, err := db.Read(r.t.Context(), driver.KindMutex, record.MutexID("k"))
	if err != nil {
		r.t.Fatal(err)
	}
	if len(reply.Docs) == 0 {
		return protocol.MutexDoc{}
	}
	is, err := record.MutexFrom(reply.Docs[0])
	if err != nil {
		r.t.Fatal(err)
	}
	return is
}

// queued waits until so many wait for the lock.
func (r lockRig) queued(n int) {
	r.t.Helper()
	r.await(fmt.Sprintf("%d wait", n), func() error {
		if is := len(r.document().Queue); is != n {
			return fmt.Errorf("%d do", is)
		}
		return nil
	})
}

// onServers runs a test on each store that needs a server.
func onServers(t *testing.T, test func(lockRig)) {
	t.Helper()
	t.Run("MongoDB", func(t *testing.T) { test(lockRig{t, testmongo.Shared(t), t.TempDir()}) })
	for _, kind := range []testservers.Kind{
		testservers.KindPostgres, testservers.KindMariaDB, testservers.KindEtcd, testservers.KindZooKeeper,
		testservers.KindRedis,
	} {
		t.Run(string(kind), func(t *testing.T) {
			test(lockRig{t, testservers.Start(t, kind).Database(), t.TempDir()})
		})
	}
}

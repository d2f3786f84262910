// Package clients_test drives an application of each library through the same calls and faults.
package clients_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/application"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// languages are the libraries, each with an application that prints what begins and ends.
var languages = map[string][]string{
	"python":     {"python3", "recorder.py"},
	"typescript": {"node", "recorder.js"},
}

const hard = 2 * time.Second // of the lease

// replica is the side of the replica: a hub behind a socket.
type replica struct {
	t   *testing.T
	hub *application.Hub

	mu      sync.Mutex
	session string
	renewed time.Time // the lease lasts from then on
	held    bool      // the lease is renewed all the time
	delay   time.Duration
}

func newReplica(t *testing.T) (*replica, string) {
	t.Helper()
	r := &replica{t: t, session: "one", held: true}
	r.hub = application.NewHub(application.Config{
		Clock: elect.SystemClock(), Session: r.lease, MaxWait: 200 * time.Millisecond, Changed: func() {},
	})
	t.Cleanup(r.hub.Close)
	socket := filepath.Join(t.TempDir(), "app.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	handler := (&application.Server{Hub: r.hub, Owner: func(key elect.Key) (application.Owner, bool) {
		return application.Owner{Key: string(key), Instance: "here"}, key == "work/a"
	}}).Handler()
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, req *http.Request) {
			late := &lateWriter{ResponseWriter: w, wait: r.late}
			handler.ServeHTTP(late, req)
		},
	)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return r, "unix:" + socket
}

// lateWriter holds an answer back.
type lateWriter struct {
	http.ResponseWriter

	wait func()
	once sync.Once
}

func (w *lateWriter) Write(b []byte) (int, error) {
	w.once.Do(w.wait)
	return w.ResponseWriter.Write(b)
}

func (r *replica) late() {
	r.mu.Lock()
	d := r.delay
	r.mu.Unlock()
	time.Sleep(d)
}

func (r *replica) lease() (string, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held {
		r.renewed = time.Now()
	}
	return r.session, time.Until(r.renewed.Add(hard))
}

func (r *replica) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// key is one that was given to the application.
type key struct {
	t     *testing.T
	stop  context.CancelCauseFunc
	ended chan error
}

func (r *replica) give(name string, token int64, value elect.Checkpoint) *key {
	ctx, stop := context.WithCancelCause(context.Background())
	k := &key{r.t, stop, make(chan error, 1)}
	go func() {
		k.ended <- r.hub.Run(ctx, tasks.Assignment{
			Key: elect.Key(name), Token: token, Grace: time.Second, Value: value,
		}, func() {})
	}()
	return k
}

// take has the key stopped and waits until it is free.
func (k *key) take() {
	k.t.Helper()
	k.stop(elect.ErrReleased)
	k.free()
}

func (k *key) free() {
	k.t.Helper()
	select {
	case <-k.ended:
	case <-time.After(30 * time.Second):
		k.t.Fatal("the key is not given back")
	}
}

// app is a process of an application.
type app struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	ended chan error
}

func start(t *testing.T, language, address string) *app {
	t.Helper()
	args := languages[language]
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Skip(args[0], "is not installed")
	}
	dir, err := filepath.Abs("../../clients/" + language)
	if err != nil {
		t.Fatal(err)
	}
	a := &app{t: t, cmd: exec.CommandContext(t.Context(), args[0], args[1:]...), lines: make(chan string, 1000),
		ended: make(chan error, 1)}
	a.cmd.Dir, a.cmd.Stderr = dir, os.Stderr
	a.cmd.Env = append(os.Environ(), "SHARDCTL_APP="+address, "PYTHONDONTWRITEBYTECODE=1")
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			a.lines <- s.Text()
		}
		a.ended <- a.cmd.Wait()
	}()
	t.Cleanup(func() { _ = a.cmd.Process.Kill() })
	return a
}

// says waits for the next line.
func (a *app) says(want string) {
	a.t.Helper()
	select {
	case got := <-a.lines:
		if got != want {
			a.t.Errorf("it says %q, want %q", got, want)
		}
	case <-time.After(30 * time.Second):
		a.t.Fatalf("it does not say %q", want)
	}
}

func (a *app) exits(code int) {
	a.t.Helper()
	select {
	case err := <-a.ended:
		var exit *exec.ExitError
		if got := 0; errors.As(err, &exit) && exit.ExitCode() != code || err == nil && got != code {
			a.t.Errorf("it exits with %v, want %d", err, code)
		}
	case <-time.After(30 * time.Second):
		a.t.Fatalf("it does not exit")
	}
}

func (a *app) signal(s syscall.Signal) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(s); err != nil {
		a.t.Fatal(err)
	}
}

// kept is a value in memory.
type kept struct {
	mu    sync.Mutex
	value []byte
}

func (k *kept) Value(context.Context) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.value, nil
}

func (k *kept) SetValue(_ context.Context, value []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.value = value
	return nil
}

func TestLibraries(t *testing.T) {
	for language := range languages {
		t.Run(language, func(t *testing.T) {
			for name, test := range map[string]func(t *testing.T, r *replica, a *app){
				"keys come and go":      comeAndGo,
				"values":                keepValues,
				"a slow stop":           stopSlowly,
				"done":                  isDone,
				"the lease is lost":     loseTheLease,
				"a new session":         changeSessions,
				"stuck":                 getStuck,
				"SIGTERM":               drain,
				"frozen":                freeze,
				"answers that are late": answerLate,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					r, address := newReplica(t)
					test(t, r, start(t, language, address))
				})
			}
		})
	}
}

func comeAndGo(_ *testing.T, r *replica, a *app) {
	one := r.give("work/one", 1, nil)
	a.says("begin work/one 1")
	two := r.give("coroutines/two", 2, nil)
	a.says("begin coroutines/two 2")
	one.take()
	a.says("end work/one 1")
	one = r.give("work/one", 3, nil)
	a.says("begin work/one 3")
	two.take()
	a.says("end coroutines/two 2")
	one.take()
	a.says("end work/one 3")
}

func keepValues(_ *testing.T, r *replica, a *app) {
	value := &kept{}
	for token, before := range []string{"-", "x", "xx"} {
		k := r.give("values/one", int64(token+1), value)
		a.says(fmt.Sprintf("begin values/one %d %s", token+1, before))
		k.take()
		a.says(fmt.Sprintf("end values/one %d", token+1))
	}
}

func stopSlowly(t *testing.T, r *replica, a *app) {
	k := r.give("slow/one", 1, nil)
	a.says("begin slow/one 1")
	began := time.Now()
	k.take()
	if took := time.Since(began); took < 450*time.Millisecond {
		t.Errorf("the key was free after %v, and ran for 500 ms", took)
	}
	a.says("end slow/one 1")
}

func isDone(_ *testing.T, r *replica, a *app) {
	k := r.give("done/one", 1, nil)
	a.says("begin done/one 1")
	time.Sleep(300 * time.Millisecond)
	k.take()
	r.give("work/next", 2, nil)
	a.says("begin work/next 2")
}

// loseTheLease: what runs is cancelled at three quarters of the validity, and runs again once the lease is back.
func loseTheLease(_ *testing.T, r *replica, a *app) {
	k := r.give("work/one", 1, nil)
	a.says("begin work/one 1")
	r.set(func() { r.held = false })
	a.says("end work/one 1")
	k.free()
	r.set(func() { r.held = true })
	r.give("work/one", 2, nil)
	a.says("begin work/one 2")
}

func changeSessions(_ *testing.T, r *replica, a *app) {
	k := r.give("work/one", 1, nil)
	a.says("begin work/one 1")
	r.set(func() { r.session = "two" })
	k.stop(elect.ErrLeaseLost)
	a.says("end work/one 1")
	k.free()
	r.give("work/one", 2, nil)
	a.says("begin work/one 2")
}

// getStuck: a process whose work does not end exits when its validity is over.
func getStuck(_ *testing.T, r *replica, a *app) {
	k := r.give("stuck/one", 1, nil)
	a.says("begin stuck/one 1")
	r.set(func() { r.held = false })
	a.exits(75)
	k.free()
}

func drain(t *testing.T, r *replica, a *app) {
	k := r.give("work/one", 1, nil)
	a.says("begin work/one 1")
	a.signal(syscall.SIGTERM)
	for limit := time.Now().Add(30 * time.Second); r.hub.Capacity(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it still takes keys")
		}
	}
	k.take()
	a.says("end work/one 1")
	a.says("over")
	a.exits(0)
}

// freeze: a process that was frozen for longer than its validity has exited, or has stopped, before it does anything.
func freeze(_ *testing.T, r *replica, a *app) {
	k := r.give("stuck/one", 1, nil)
	a.says("begin stuck/one 1")
	a.signal(syscall.SIGSTOP)
	k.free()
	a.signal(syscall.SIGCONT)
	a.exits(75)
}

// answerLate: an answer that is held back for longer than it is valid starts nothing.
func answerLate(t *testing.T, r *replica, a *app) {
	r.set(func() { r.delay = hard + 500*time.Millisecond })
	k := r.give("work/one", 1, nil)
	k.free()
	r.set(func() { r.delay = 0 })
	next := r.give("work/next", 2, nil)
	for {
		select {
		case line := <-a.lines:
			if strings.HasPrefix(line, "begin work/one") {
				t.Error("it begins what was valid once")
			}
			if line == "begin work/next 2" {
				next.take()
				return
			}
		case <-time.After(30 * time.Second):
			t.Fatal("it begins nothing any more")
		}
	}
}

package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/guard/worker"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
)

// The test binary plays all parts: the test starts it again as a guard, and that starts it again as the worker. The
// worker obeys its standard input and reports on its standard output what happens, and so does the
// guard when it marks sessions.

const (
	envRole     = "GUARD_TEST_ROLE"
	envNoList   = "GUARD_TEST_NO_LIST"   // the guard cannot list its own children
	envNoClone3 = "GUARD_TEST_NO_CLONE3" // a filter forbids the guard to start a process in a control group
	envNoKill   = "GUARD_TEST_NO_KILL"   // a filter forbids SIGKILL, as if every process were another user's
	// envNoCgroups has the guard go without control groups. Set for the package, it has all tests do so.
	envNoCgroups = "GUARD_TEST_NO_CGROUPS"
)

func TestMain(m *testing.M) {
	switch {
	case wire.IsWorker():
		os.Exit(playWorker())
	case os.Getenv(envRole) == "guard":
		os.Exit(playGuard())
	default:
		goleak.VerifyTestMain(m)
	}
}

// deed is what the worker is to do.
type deed struct {
	Do      string        `json:"do"`
	Session string        `json:"session,omitempty"`
	Name    string        `json:"name,omitempty"`
	Script  string        `json:"script,omitempty"`
	Args    []string      `json:"args,omitempty"`
	Pad     int           `json:"pad,omitempty"` // bytes of environment more
	Signal  int           `json:"signal,omitempty"`
	For     time.Duration `json:"for,omitempty"`
	Limit   time.Duration `json:"limit,omitempty"`
	Code    int           `json:"code,omitempty"`
	Mute    bool          `json:"mute,omitempty"` // do not read its output
}

// event is what happened.
type event struct {
	Event    string                                 `json:"event"`
	Name     string                                 `json:"name,omitempty"`
	PID      int                                    `json:"pid,omitempty"`
	Code     int                                    `json:"code,omitempty"`
	Signal   int                                    `json:"signal,omitempty"`
	Error    string                                 `json:"error,omitempty"`
	NotExist bool                                   `json:"notExist,omitempty"`
	Text     string                                 `json:"text,omitempty"`
	Took     time.Duration                          `json:"took,omitempty"`
	Marked   map[string]map[elect.Key]time.Duration `json:"marked,omitempty"`
	Alive    int                                    `json:"alive,omitempty"`
	Used     map[string]time.Duration               `json:"used,omitempty"`
}

// reporter writes one event as one line, in one write.
type reporter struct {
	mu  sync.Mutex
	out io.Writer
}

func (t *reporter) report(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.out.Write(append(line, '\n'))
}

func playGuard() int {
	says := &reporter{out: os.Stdout}
	failures := 2
	cfg := Config{
		Prepare: func(context.Context) error {
			says.report(event{Event: "prepared"})
			return nil
		},
		MarkDead: func(_ context.Context, sessions []electing.Session) error {
			if failures--; failures >= 0 {
				return errors.New("the store is unreachable")
			}
			e := event{Event: "marked", Marked: map[string]map[elect.Key]time.Duration{}}
			for _, s := range sessions {
				e.Marked[s.ID] = s.Remote
				e.Alive += len(marked(s.ID))
			}
			says.report(e)
			return nil
		},
		KeepSession: func(_ context.Context, session string, runs func(elect.Key) bool) error {
			says.report(event{Event: "kept", Name: session, Text: fmt.Sprintf("a: %t, b: %t", runs("g/a"), runs("g/b"))})
			return nil
		},
		Log: funcr.New(func(prefix, args string) {
			fmt.Fprintln(os.Stderr, "guard:", prefix, args)
			says.report(event{Event: "log", Text: args})
		}, funcr.Options{Verbosity: 1}),
	}
	if os.Getenv(envNoClone3) != "" {
		forbidClone3()
	}
	if os.Getenv(envNoKill) != "" {
		forbidKill()
	}
	cfg.Name, cfg.noCgroups = "test", os.Getenv(envNoCgroups) != ""
	if os.Getenv(envNoList) != "" {
		cfg.listChildren = func() ([]int, error) { return nil, errors.ErrUnsupported }
	}
	code, err := Run(context.Background(), cfg)
	says.report(event{Event: "ended", Code: code, Error: errText(err)})
	return code
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// marked finds the processes that carry a session.
func marked(session string) []process.Proc {
	procs, err := process.All()
	if err != nil {
		panic(err)
	}
	var out []process.Proc
	for _, p := range procs {
		if m, _ := wire.MarksOf(p.PID); m.Session == session && !p.Zombie {
			out = append(out, p)
		}
	}
	return out
}

// player is the worker.
type player struct {
	*reporter
	client *worker.Client
	mu     sync.Mutex
	runs   map[string]taskrun.Process
	lock   *os.File
}

func playWorker() int {
	signal.Ignore(syscall.SIGPIPE)
	p := &player{reporter: &reporter{out: os.Stdout}, runs: map[string]taskrun.Process{}}
	client, err := worker.Connect()
	if err != nil {
		p.report(event{Event: "failed", Error: err.Error()})
		return 1
	}
	p.client = client
	p.report(event{Event: "connected", PID: os.Getpid(), Text: os.Getenv("SHARDCTL_GUARD")})
	exit := make(chan int, 1)
	go p.read(exit)
	for {
		select {
		case o := <-client.Orders():
			p.report(event{Event: "order", Text: o.String()})
		case a := <-client.Alarms():
			p.report(event{Event: "alarm", Name: a.Key.Name(), Text: fmt.Sprint(a.PIDs)})
		case u := <-client.Used():
			e := event{Event: "used", Used: map[string]time.Duration{}}
			for _, c := range u.Commands {
				e.Used[c.Key.Name()] = c.CPU
			}
			p.report(e)
		case <-client.Lost():
			p.report(event{Event: "lost"})
			return 9
		case code := <-exit:
			return code
		}
	}
}

func (p *player) read(exit chan<- int) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var d deed
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			p.report(event{Event: "failed", Error: err.Error()})
			continue
		}
		switch d.Do {
		case "exit":
			exit <- d.Code
		case "goodbye":
			if err := p.client.Close(context.Background()); err != nil {
				p.report(event{Event: "failed", Error: err.Error()})
			}
			exit <- d.Code
		case "start":
			go p.start(d)
		default:
			if err := p.do(d); err != nil {
				p.report(event{Event: "failed", Name: d.Do, Error: err.Error()})
			}
		}
	}
}

func (p *player) do(d deed) error {
	ctx := context.Background()
	key := elect.NewKey("g", d.Name)
	switch d.Do {
	case "hello":
		return p.client.Hello(d.For, d.Limit)
	case "open":
		return p.client.Announcer.SessionOpening(ctx, d.Session)
	case "lock":
		lock, err := takeLock(d.Name)
		if err != nil {
			return err
		}
		p.lock = lock // keeps it open
		return p.client.HoldLock(ctx, lock)
	case "close":
		return p.client.Announcer.SessionClosed(d.Session)
	case "heartbeat":
		return p.client.Announcer.Deadline(d.Session, wire.DeadlinesFrom(wire.Now(), d.For, d.For*3/4))
	case "remote":
		return p.client.Announcer.RemoteLease(ctx, key, d.Session, wire.Now().Add(d.For))
	case "inside":
		return p.client.Announcer.RunInside(ctx, key, d.Session)
	case "outside":
		return p.client.Announcer.RunInsideOver(key, d.Session)
	case "stop":
		p.mu.Lock()
		run := p.runs[d.Name]
		p.mu.Unlock()
		run.Stop(syscall.Signal(d.Signal), d.For)
		return nil
	case "measure":
		return p.client.MeasureCPU()
	case "sync":
		p.report(event{Event: "synced"})
		return nil
	default:
		return fmt.Errorf("unknown deed %q", d.Do)
	}
}

func (p *player) start(d deed) {
	key := elect.NewKey("g", d.Name)
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	cmd := taskrun.Command{
		Key: key, Session: d.Session, Token: 1, Args: d.Args, Stdout: w, Stderr: w,
		Environ: []string{
			"PATH=" + os.Getenv("PATH"), wire.EnvKey + "=" + string(key), wire.EnvSession + "=" + d.Session,
			wire.EnvToken + "=1",
		},
	}
	for pad := d.Pad; pad > 0; pad -= 64 << 10 {
		cmd.Environ = append(cmd.Environ, fmt.Sprintf("PAD%d=%s", pad, strings.Repeat("x", min(pad, 64<<10))))
	}
	if d.Script != "" {
		cmd.Args = []string{"sh", "-c", d.Script}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if d.For > 0 {
		ctx, cancel = context.WithTimeout(ctx, d.For)
		defer cancel()
	}
	began := time.Now()
	run, err := p.client.Commands.Start(ctx, cmd)
	if err != nil {
		p.report(event{Event: "refused", Name: d.Name, Error: err.Error(), NotExist: errors.Is(err, fs.ErrNotExist)})
		return
	}
	p.mu.Lock()
	p.runs[d.Name] = run
	p.mu.Unlock()
	p.report(event{Event: "started", Name: d.Name, PID: run.PID(), Took: time.Since(began)})
	if !d.Mute {
		go p.output(d.Name, r)
	}
	<-run.Exited()
	e := event{Event: "exited", Name: d.Name, Code: run.Exit().Code, Error: errText(run.Exit().Err)}
	if s, ok := run.Exit().Signal.(syscall.Signal); ok {
		e.Signal = int(s)
	}
	p.report(e)
	<-run.Gone()
	gone := event{Event: "gone", Name: d.Name}
	if d.Script != "" {
		gone.Alive = len(marked(d.Session))
	}
	p.report(gone)
}

// output reports the lines of a run, and at last that the pipe has no writer any more.
func (p *player) output(name string, r *os.File) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		p.report(event{Event: "line", Name: name, Text: lines.Text()})
	}
	p.report(event{Event: "eof", Name: name})
}

// takeLock opens a file and locks it, unless another process has.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/web"
)

// State is how the process of a replica is.
type State string

// The states of a replica.
const (
	Running State = "running"
	Leaving State = "leaving" // it was asked to stop
	Dead    State = "dead"    // it ended by a signal or with an error
	Left    State = "left"    // it ended in order
)

// Gone reports whether the process has ended.
func (s State) Gone() bool { return s == Dead || s == Left }

// Replica is what is known of one replica.
type Replica struct {
	Name    string
	State   State
	Guard   int    // process id
	Worker  int    // process id; 0: not known
	Why     string // how it ended: "signal: killed", its last log line
	Again   bool   // it ended, and is started again
	Refused bool   // it ended since its configuration is wrong, or its store refuses
}

// cluster is the processes. All methods may be called concurrently.
type cluster struct {
	opts    Options
	program string          // the executable
	dir     string          // of configurations, logs and the store
	thread  *process.Thread // starts the replicas

	pause  time.Duration // before a replica is started again
	ending chan struct{} // closed when nothing is started any more

	mu       sync.Mutex
	replicas []*replica
	closed   bool // ending is closed
	running  sync.WaitGroup
}

type replica struct {
	name  string
	admin string // of admin.listen
	cmd   *exec.Cmd
	log   string
	done  chan struct{} // closed once the process has been waited for

	// Guarded by cluster.mu.
	worker  int
	stopped bool             // asked to stop in order
	state   *os.ProcessState // nil: it runs
	again   bool             // it ended, and is started again after a pause
	refused error            // why it could not be started again
}

func newCluster(o Options, program, dir string) *cluster {
	return &cluster{
		opts: o, program: program, dir: dir, thread: process.NewThread(), pause: restartPause,
		ending: make(chan struct{}),
	}
}

var errClosed = errors.New("dev is about to end")

// add starts one more replica. Names are never used twice: r1, r2 and so on.
func (c *cluster) add(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	r, err := c.start(ctx, "r"+strconv.Itoa(len(c.replicas)+1))
	if err != nil {
		return err
	}
	c.replicas = append(c.replicas, r)
	return nil
}

// start starts a process of that name. A log that is there is added to.
func (c *cluster) start(ctx context.Context, name string) (*replica, error) {
	r, err := c.prepare(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := c.thread.Start(r.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c.running.Go(func() { c.wait(r) }) //nolint:contextcheck // a replica outlives who asked for it
	return r, nil
}

// prepare writes the replica's configuration and says how it is started.
func (c *cluster) prepare(ctx context.Context, name string) (*replica, error) {
	addrs, err := web.FreeAddresses(ctx, 2)
	if err != nil {
		return nil, err
	}
	content, err := configFile(c.opts, name, c.dir, addrs[0], addrs[1])
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.dir, name+".yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, err
	}
	// Not exec.CommandContext: replicas are ended one by one and in order, which a context cannot say.
	//nolint:gosec,noctx // G204: this very program; contexts: see above
	cmd := exec.Command(c.program, "run", "--config", file)
	// The terminal's signals are for dev alone, and replicas die with it.
	cmd.SysProcAttr = process.OwnGroup()
	return &replica{
		name: name, admin: addrs[1], cmd: cmd, log: filepath.Join(c.dir, name+".log"), done: make(chan struct{}),
	}, nil
}

// list is how the processes are, in order of their numbers.
func (c *cluster) list() []Replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.findWorkers()
	all := make([]Replica, len(c.replicas))
	for i, r := range c.replicas {
		all[i] = r.shown()
	}
	return all
}

func (r *replica) shown() Replica {
	s := Replica{Name: r.name, State: Running, Guard: r.cmd.Process.Pid, Worker: r.worker}
	switch {
	case r.state == nil && r.stopped:
		s.State = Leaving
	case r.state == nil:
	case r.state.Success():
		s.State = Left
	case r.refused != nil:
		s.State, s.Why = Dead, r.refused.Error()
	case r.lapsed():
		s.State, s.Why, s.Again = Dead, "its lease ran out while it held the store, as on a busy machine", r.again
	default:
		s.State, s.Why, s.Refused = Dead, r.state.String(), r.state.ExitCode() == cli.CodeConfig
		// A guard ends as its worker did: 128 and the number of a signal.
		if code := r.state.ExitCode(); code > 128 {
			s.Why = "its worker: signal: " + syscall.Signal(code-128).String()
		} else if code == guard.ExitCrashed {
			s.Why = "its worker crashed: see " + r.log
		} else if r.state.Exited() {
			s.Why = lastWords(r.log, s.Why)
		}
	}
	return s
}

// findWorkers looks for the workers that are not known. A replica has one for all its life.
func (c *cluster) findWorkers() {
	missing := map[int]*replica{}
	for _, r := range c.replicas {
		if r.state == nil && r.worker == 0 {
			missing[r.cmd.Process.Pid] = r
		}
	}
	if len(missing) == 0 {
		return
	}
	for guard, worker := range firstChildren() {
		if r := missing[guard]; r != nil {
			r.worker = worker.PID
		}
	}
}

// firstChildren gives for each process the one of its children that was started first. A guard starts its worker before
// any task. It finds nothing where processes cannot be listed.
func firstChildren() map[int]process.Proc {
	first := map[int]process.Proc{}
	all, _ := process.All() // see above
	for _, p := range all {
		known, found := first[p.Parent]
		if !found || p.Start < known.Start || p.Start == known.Start && p.PID < known.PID {
			first[p.Parent] = p
		}
	}
	return first
}

// admins are where living replicas answer and take changes, in order of their numbers.
func (c *cluster) admins() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, r := range c.replicas {
		if r.state == nil {
			all = append(all, r.admin)
		}
	}
	return all
}

// to does something to the running replica of that name.
func (c *cluster) to(name string, do func(*replica) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.replicas {
		if r.name == name && r.state == nil {
			c.findWorkers()
			return do(r)
		}
	}
	return fmt.Errorf("%s does not run", name)
}

// kill is kill -9 of the guard and the worker.
func (c *cluster) kill(name string) error {
	return c.to(name, func(r *replica) error {
		err := r.cmd.Process.Kill()
		if r.worker != 0 {
			err = errors.Join(err, signalPID(r.worker, syscall.SIGKILL))
		}
		return err
	})
}

// killWorker is kill -9 of the worker only.
func (c *cluster) killWorker(name string) error {
	return c.to(name, func(r *replica) error {
		if r.worker == 0 {
			return fmt.Errorf("the worker of %s is not known", name)
		}
		return signalPID(r.worker, syscall.SIGKILL)
	})
}

// stop asks a replica to hand its tasks over and leave. A second time stops it hard.
func (c *cluster) stop(name string) error {
	return c.to(name, func(r *replica) error {
		r.stopped = true
		return r.cmd.Process.Signal(syscall.SIGTERM)
	})
}

// close stops all replicas in order, kills those that still run after the grace, and waits for all of them. It returns
// how many had to be killed.
func (c *cluster) close(grace time.Duration) (killed int) {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.ending)
	}
	all := slices.Clone(c.replicas)
	c.mu.Unlock()
	for _, r := range all {
		_ = c.stop(r.name) // an error says that it has ended
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for _, r := range all {
		select {
		case <-r.done:
			continue
		case <-timer.C:
			timer.Reset(0) // the rest gets no more time either
		}
		if c.kill(r.name) == nil {
			killed++
		}
	}
	c.running.Wait()
	c.thread.Close()
	return killed
}

// signalPID sends a signal to a process that may have ended.
func signalPID(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}

// restartPause is longer than the lease. Its tasks then run elsewhere before a replica that lost it is back.
const restartPause = 3 * time.Second

// wait waits for a process. One that lost its lease is started again after a pause, under the same name: no one asked
// for its end. One that was killed, was asked to stop or found its configuration wrong stays away.
func (c *cluster) wait(r *replica) {
	_ = r.cmd.Wait() // ProcessState says the same and more
	c.mu.Lock()
	r.state = r.cmd.ProcessState
	r.again = r.lapsed() && !r.stopped && !c.closed
	again := r.again
	c.mu.Unlock()
	close(r.done)
	if !again {
		return
	}
	pause := time.NewTimer(c.pause)
	defer pause.Stop()
	select {
	case <-c.ending:
	case <-pause.C:
		c.replace(r)
	}
}

// lapsed says whether a process that has ended lost its lease.
func (r *replica) lapsed() bool { return r.state.ExitCode() == guard.ExitLeaseLost }

// replace puts a new process in the place of one that has ended.
func (c *cluster) replace(r *replica) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	next, err := c.start(context.Background(), r.name)
	if err != nil {
		r.again, r.refused = false, err
		return
	}
	for i := range c.replicas {
		if c.replicas[i] == r {
			c.replicas[i] = next
		}
	}
}

// tail bounds what is read of a log, in bytes.
const tail = 8 << 10

// lastWords is the last line of a log, as a person would say it; otherwise when there is none.
func lastWords(file, otherwise string) string {
	f, err := os.Open(file) //nolint:gosec // G304: in a directory of our own
	if err != nil {
		return otherwise
	}
	defer func() { _ = f.Close() }() // only read
	if info, err := f.Stat(); err == nil && info.Size() > tail {
		_, _ = f.Seek(-tail, io.SeekEnd) // on an error more is read than needed
	}
	content, err := io.ReadAll(f)
	content = bytes.TrimSpace(content)
	if err != nil || len(content) == 0 {
		return otherwise
	}
	return sentence(string(content[bytes.LastIndexByte(content, '\n')+1:]))
}

// sentence is the message of a log line in JSON; any other line as it is.
func sentence(line string) string {
	var entry struct{ Msg, Error string }
	if json.Unmarshal([]byte(line), &entry) != nil || entry.Msg == "" {
		return strings.TrimPrefix(line, "error: ")
	}
	if entry.Error != "" {
		return entry.Msg + ": " + entry.Error
	}
	return entry.Msg
}

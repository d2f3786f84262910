//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// Cluster is the replicas of one scenario. It is for one goroutine.
type Cluster struct {
	Options

	bins     Binaries
	dir      string
	replicas []*Replica // all that were ever started, in order
}

// NewCluster makes a cluster without replicas whose files are in dir, which must exist.
func NewCluster(bins Binaries, dir string, o Options) (*Cluster, error) {
	c := &Cluster{Options: o, bins: bins, dir: dir}
	if err := os.MkdirAll(c.records(), 0o755); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return c, nil
}

func (c *Cluster) records() string { return filepath.Join(c.dir, "records") }

// Add starts n replicas with names that no replica of this cluster had before.
func (c *Cluster) Add(ctx context.Context, n int) error {
	for range n {
		if _, err := c.Start(ctx, fmt.Sprintf("r%d", len(c.replicas)+1)); err != nil {
			return err
		}
	}
	return nil
}

// Start starts one replica with this name; args follow --config PATH. It does not wait until it works.
func (c *Cluster) Start(ctx context.Context, name string, args ...string) (*Replica, error) {
	return c.StartWith(ctx, name, c.configureWith(name, nil), args...)
}

// StartWith is Start with a configuration of the scenario's own, for listeners at these addresses.
func (c *Cluster) StartWith(
	ctx context.Context, name string, configure func(server, admin string) (string, error), args ...string,
) (*Replica, error) {
	f, err := c.prepare(ctx, name, configure)
	if err != nil {
		return nil, err
	}
	r, err := startReplica(c.bins.Shardctl, f.config, f.log, c.mark(), args...)
	if err != nil {
		return nil, err
	}
	return c.joined(r, name, f), nil
}

// files are what a replica needs before it can be started.
type files struct {
	config, log   string
	server, admin string
}

func (c *Cluster) prepare(
	ctx context.Context, name string, configure func(server, admin string) (string, error),
) (files, error) {
	server, err := freeAddr(ctx)
	if err != nil {
		return files{}, err
	}
	admin, err := freeAddr(ctx)
	if err != nil {
		return files{}, err
	}
	file := filepath.Join(c.dir, fmt.Sprintf("%02d-%s", len(c.replicas)+1, name)) // a name may come twice
	f := files{config: file + ".yaml", log: file + ".log", server: server, admin: admin}
	text, err := configure(server, admin)
	if err != nil {
		return f, fmt.Errorf("configuration: %w", err)
	}
	if err := os.WriteFile(f.config, []byte(text), 0o600); err != nil {
		return f, fmt.Errorf("configuration: %w", err)
	}
	return f, nil
}

// mark is also in the environment of replicas, so that Close finds all that is left.
func (c *Cluster) mark() []string {
	env := []string{recordEnv + "=" + c.records()}
	if c.TempDir != "" {
		env = append(env, "TMPDIR="+c.TempDir)
	}
	return env
}

func (c *Cluster) joined(r *Replica, name string, f files) *Replica {
	r.Name, r.Client = name, newClient(f.server, f.admin)
	c.replicas = append(c.replicas, r)
	return r
}

// StartProgram starts another program as a member of the cluster: a service of somebody's own that embeds the packages.
// It is one process (the guard, as far as signals go) and finds the directory for its records in RECORD_DIR. It has no
// HTTP interface to ask.
func (c *Cluster) StartProgram(name, program string, args ...string) (*Replica, error) {
	log := filepath.Join(c.dir, fmt.Sprintf("%02d-%s.log", len(c.replicas)+1, name))
	r, err := startProgram(program, log, c.mark(), args...)
	if err != nil {
		return nil, err
	}
	return c.joined(r, name, files{log: log}), nil
}

// configureWith makes the configuration of a replica with further fields of its own.
func (c *Cluster) configureWith(name string, fields map[string]any) func(server, admin string) (string, error) {
	return func(server, admin string) (string, error) {
		text, err := c.config(name, server, admin, c.bins.Recorder, c.records())
		if err != nil || len(fields) == 0 {
			return string(text), err
		}
		more, err := yaml.Marshal(fields)
		return string(text) + string(more), err
	}
}

// ConfigFile writes the configuration of a replica that is not started, for commands that take --config.
func (c *Cluster) ConfigFile(ctx context.Context) (string, error) {
	f, err := c.prepare(ctx, "none", c.configureWith("none", nil))
	return f.config, err
}

// Live are the replicas whose process has not ended, in order of their start.
func (c *Cluster) Live() []*Replica {
	return slices.DeleteFunc(slices.Clone(c.replicas), func(r *Replica) bool { return !r.Running() })
}

// All are all replicas that were ever started, in order.
func (c *Cluster) All() []*Replica { return slices.Clone(c.replicas) }

// Keys are the keys of all its tasks, in order.
func (c *Cluster) Keys() []string {
	keys := make([]string, 0, c.Tasks)
	for i := range c.Tasks {
		keys = append(keys, Key(i+1))
	}
	return keys
}

// History reads what ran so far.
func (c *Cluster) History() (*history.History, error) { return history.Load(c.records()) }

// Stall is how long any task waited beyond its period for its next timestamp, at a time that touches [from, to].
func (c *Cluster) Stall(from, to history.Instant) (time.Duration, error) {
	return history.LongestStall(c.records(), from, to)
}

// Scale starts replicas, or stops the newest in order, until n live.
func (c *Cluster) Scale(ctx context.Context, n int) error {
	live := c.Live()
	if len(live) < n {
		return c.Add(ctx, n-len(live))
	}
	for _, r := range live[n:] {
		if _, err := r.Kill(Guard, syscall.SIGTERM); err != nil {
			return err
		}
	}
	for _, r := range live[n:] {
		if _, err := r.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Logs are the last lines of every replica that lives or ended otherwise than in order.
func (c *Cluster) Logs(lines int) string {
	var b strings.Builder
	for _, r := range c.replicas {
		if !r.Running() && r.cmd.ProcessState.Success() {
			continue
		}
		fmt.Fprintf(&b, "---- %s: %s\n%s\n", r.Name, r.LogFile, r.LogTail(lines))
	}
	return b.String()
}

// Close kills every process of the cluster, also those that hide from their replica.
func (c *Cluster) Close() {
	for _, r := range c.replicas {
		r.end()
	}
	for _, p := range c.Leftovers() {
		_ = p.Signal(syscall.SIGKILL) // it may be ending by itself
	}
}

// Leftovers are the living processes that belong to the cluster: replicas, tasks, and what came of them.
func (c *Cluster) Leftovers() []Proc { return withEnv(recordEnv, c.records()) }

// asFirst becomes the first process of a container: it sees the container's processes alone, and then is the program.
const asFirst = `mount --make-rprivate / && mount -t proc none /proc && exec "$0" "$@"`

// StartContainer is Start for a replica whose guard is PID 1 of a PID namespace of its own, as in a container. When
// that is killed, so is everything in it. fields are further ones of its configuration; args follow --config PATH.
func (c *Cluster) StartContainer(
	ctx context.Context, name string, fields map[string]any, args ...string,
) (*Replica, error) {
	f, err := c.prepare(ctx, name, c.configureWith(name, fields))
	if err != nil {
		return nil, err
	}
	log, err := os.Create(f.log)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	// the process has its own
	defer func() { _ = log.Close() }()
	//nolint:noctx // its life is the scenario's
	cmd := exec.Command("sh", append([]string{"-c", asFirst, c.bins.Shardctl, "run", "--config", f.config}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), c.mark()...)
	err = spawnWith(cmd, containerAttr())
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("start %s in a PID namespace of its own: run these scenarios as root, or where users "+
			"may make namespaces: %w", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s in a PID namespace of its own: %w", name, err)
	}
	r := &Replica{LogFile: f.log, Config: f.config, cmd: cmd, exited: make(chan struct{})}
	r.guard, err = procOf(cmd.Process.Pid) // not reaped yet, so it is there
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(r.exited)
	}()
	return c.joined(r, name, f), err
}

// containerAttr gives a process namespaces of its own; who is not root gets one of users as well, in which it is.
func containerAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if uid := os.Geteuid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

//go:build linux

package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/client"
)

// The tokens of a cluster that has them.
const (
	adminToken = "admin-admin-admin-admin"
	readToken  = "read-read-read-read-read"
)

//go:embed config.yaml.tmpl
var configText string

var configTemplate = template.Must(template.New("config").Parse(configText))

// replica is one `shardctl run`.
type replica struct {
	Name, Server, Admin, Store, Tokens, Endpoint string

	log    string
	cmd    *exec.Cmd
	exited chan error
}

// cluster is two replicas on one SQLite file, and what their http tasks call.
type cluster struct {
	replicas []*replica
	endpoint *httptest.Server
	tokens   bool
}

// start starts a cluster and waits until it has work and output to show.
func start(ctx context.Context, program, dir string, tokens bool) (*cluster, error) {
	dir, err := os.MkdirTemp(dir, "cluster-")
	if err != nil {
		return nil, err
	}
	c := &cluster{
		tokens: tokens, endpoint: httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})),
	}
	addresses, err := web.FreeAddresses(ctx, 4)
	if err != nil {
		return nil, err
	}
	file := ""
	if tokens {
		file = filepath.Join(dir, "tokens")
		text := "ann " + adminToken + " admin\neve " + readToken + " read\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	for i, name := range []string{"a", "b"} {
		r := &replica{
			Name: name, Server: addresses[2*i], Admin: addresses[2*i+1], Store: filepath.Join(dir, "store.db"),
			Tokens: file, Endpoint: c.endpoint.URL, log: filepath.Join(dir, name+".log"), exited: make(chan error, 1),
		}
		if err := r.start(program, filepath.Join(dir, name+".yaml")); err != nil {
			return nil, errors.Join(err, c.stop())
		}
		c.replicas = append(c.replicas, r)
	}
	if err := c.settled(ctx); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (r *replica) start(program, config string) error {
	var text bytes.Buffer
	if err := configTemplate.Execute(&text, r); err != nil {
		return err
	}
	if err := os.WriteFile(config, text.Bytes(), 0o600); err != nil {
		return err
	}
	log, err := os.Create(r.log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	//nolint:noctx // it is stopped in order
	r.cmd = exec.Command(program, "run", "--config", config)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	go func() { r.exited <- r.cmd.Wait() }()
	return nil
}

// settleTime bounds how long a cluster takes to have something of everything to show.
const settleTime = time.Minute

// settled waits until tasks run and fail, runs are kept, and something is written.
func (c *cluster) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleTime, errors.New("the cluster has not come up in time"))
	defer cancel()
	ask, err := client.New("http://"+c.replicas[0].Admin, client.WithToken(c.token()))
	if err != nil {
		return err
	}
	for {
		err := c.complete(ctx, ask)
		if err == nil {
			return nil
		}
		if clock.Sleep(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("%w: %w\n%s", context.Cause(ctx), err, c.logs())
		}
	}
}

// complete says what is missing.
func (c *cluster) complete(ctx context.Context, ask *client.Client) error {
	tasks, err := ask.Tasks().List(ctx, client.Filter{})
	if err != nil {
		return err
	}
	for i := range tasks {
		if t := &tasks[i]; t.Instance == "" && t.State != "done" && t.State != "failed" {
			return fmt.Errorf("%s is %s", t.Key, t.State)
		}
	}
	runs, err := ask.Tasks().Runs(ctx, "jobs", "broken")
	if err != nil || len(runs) == 0 {
		return fmt.Errorf("no run of jobs/broken is kept (%w)", err)
	}
	if out, err := ask.Tasks().Logs(ctx, "topics", "topic-1", client.LogOptions{}); err != nil || out.Text == "" {
		return fmt.Errorf("topics/topic-1 has written nothing (%w)", err)
	}
	instances, err := ask.Instances().List(ctx, client.Filter{})
	if err != nil || len(instances) != len(c.replicas) {
		return fmt.Errorf("%d instances (%w)", len(instances), err)
	}
	return nil
}

func (c *cluster) token() string {
	if c.tokens {
		return adminToken
	}
	return ""
}

// alive says which replica has ended or answers no more.
func (c *cluster) alive(ctx context.Context) error {
	for _, r := range c.replicas {
		ask, err := client.New("http://" + r.Server)
		if err == nil {
			err = ask.Livez(ctx)
		}
		if err != nil {
			return fmt.Errorf("replica %s: %w\n%s", r.Name, err, c.logs())
		}
	}
	return nil
}

// stop ends all replicas in order, and kills those that do not end.
func (c *cluster) stop() error {
	var errs []error
	for _, r := range c.replicas {
		errs = append(errs, r.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, r := range c.replicas {
		select {
		case err := <-r.exited:
			if err != nil {
				errs = append(errs, fmt.Errorf("replica %s: %w", r.Name, err))
			}
		case <-time.After(20 * time.Second):
			errs = append(
				errs, fmt.Errorf("replica %s does not end", r.Name), syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL),
			)
		}
	}
	c.endpoint.Close()
	return errors.Join(errs...)
}

// shownLog is how much of a log is shown of a replica that is in trouble, in bytes.
const shownLog = 4 << 10

func (c *cluster) logs() string {
	var text strings.Builder
	for _, r := range c.replicas {
		log, err := os.ReadFile(r.log)
		if err != nil {
			continue
		}
		_, _ = fmt.Fprintf(&text, "-- the end of the log of %s\n%s", r.Name, log[max(0, len(log)-shownLog):])
	}
	return text.String()
}

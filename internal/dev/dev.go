package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/internal/cli"
)

// ErrPort says that the page's port cannot be had.
var ErrPort = errors.New("the page cannot listen")

// Terminal is where keys come from and the screen goes to.
type Terminal struct{ In, Out *os.File }

// stopGrace is how long replicas get at the end to leave in order.
const stopGrace = 5 * time.Second

// Run runs the cluster until ctx ends or somebody quits, which is no error, and stops everything it started. With a
// terminal it draws the screen there and obeys keys; with nil it writes changes to out, a line each. The options must
// be valid. The error wraps [ErrPort] when the page's port is taken, and a [cli.Exit] with [cli.CodeConfig] when every
// replica has found its configuration wrong.
func Run(ctx context.Context, o Options, out io.Writer, terminal *Terminal) (err error) {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return fmt.Errorf("--port %d: %w: %w; choose another, 0 is any free one", o.Port, ErrPort, err)
	}
	dir, err := os.MkdirTemp("", "shardctl-dev-")
	if err != nil {
		_ = listener.Close()
		return fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	c := newCluster(o, program, dir)
	d := &session{cluster: c, url: "http://" + listener.Addr().String(), begun: time.Now(), failed: make(chan error, 1)}
	defer func() {
		if killed := c.close(stopGrace); killed > 0 {
			err = errors.Join(err, fmt.Errorf("%d replicas did not stop within %v and were killed", killed, stopGrace))
		}
	}()
	server := &http.Server{Handler: newProxy(c.admins), ReadHeaderTimeout: 5 * time.Second}
	defer func() { _ = server.Close() }() // the page shows that it has ended
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.fail(fmt.Errorf("serve the page: %w", err))
		}
	}()
	for range o.Replicas {
		if err := c.add(ctx); err != nil {
			return err
		}
	}
	return d.run(ctx, out, terminal)
}

// session is one call of Run, from the moment that replicas run.
type session struct {
	cluster *cluster
	url     string
	begun   time.Time
	failed  chan error
}

// fail ends the session. Only the first failure counts.
func (d *session) fail(err error) {
	select {
	case d.failed <- err:
	default:
	}
}

func (d *session) run(ctx context.Context, out io.Writer, terminal *Terminal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pressed := make(chan byte)
	var to output = printer{out}
	if terminal != nil {
		r, err := newRaw(terminal)
		if err != nil {
			return err
		}
		defer r.close() // also when this goroutine panics
		to = r
		go read(ctx, terminal.In, pressed)
	}
	views := make(chan *View)
	looking := make(chan struct{})
	go func() {
		defer close(looking)
		defer func() { // a panic in here would leave the terminal raw and the replicas running
			if p := recover(); p != nil {
				d.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		newObserver(d.cluster, d.url).run(ctx, views)
	}()
	defer func() { cancel(); <-looking }()
	return d.loop(ctx, to, terminal != nil, views, pressed)
}

// read passes what is typed on. A read of a terminal cannot be broken off: it ends with the program.
func read(ctx context.Context, in io.Reader, pressed chan<- byte) {
	b := make([]byte, 1)
	for {
		if n, err := in.Read(b); err != nil || n == 0 {
			return
		}
		select {
		case pressed <- b[0]:
		case <-ctx.Done():
			return
		}
	}
}

// maxEvents are kept for the screen.
const maxEvents = 100

// loop shows each view and does what keys say.
func (d *session) loop(ctx context.Context, to output, keyed bool, views <-chan *View, pressed <-chan byte) error {
	s := &screen{view: &View{Options: d.cluster.opts, URL: d.url, Logs: d.cluster.dir}}
	news := newChanges(d.begun)
	var k keys
	lived := false
	report := func(texts ...string) {
		var reported []event
		for _, text := range texts {
			reported = append(reported, event{time.Now(), text})
		}
		s.events = append(s.events, reported...)
		s.events = s.events[max(0, len(s.events)-maxEvents):]
		to.show(s, reported)
	}
	report(fmt.Sprintf("the page is on %s, logs are in %s", d.url, d.cluster.dir))
	report("in another terminal: shardctl status --server " + d.url)
	for {
		select {
		case s.view = <-views:
			report(news.step(s.view)...)
			lived = lived || slices.ContainsFunc(s.view.Replicas, func(r Replica) bool { return r.State == Live })
			if why, over := ended(s.view); over && (!keyed || !lived) {
				err := fmt.Errorf("no replica is left: %s", why)
				if !slices.ContainsFunc(s.view.Replicas, func(r Replica) bool { return !r.Refused }) {
					return cli.Exit{Code: cli.CodeConfig, Err: err}
				}
				return err
			}
		case b := <-pressed:
			a, number := k.press(b)
			if a == quit {
				return nil
			}
			if err := d.act(ctx, a, s.view, number); err != nil {
				report(err.Error())
			}
			s.typed = k.number
			to.show(s, nil)
		case err := <-d.failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// act does what a key asks for.
func (d *session) act(ctx context.Context, a action, v *View, number int) error {
	name := target(v, number)
	switch {
	case name != "" || a == addReplica || a == nothing:
	case number == 0:
		return errors.New("no replica runs: a adds one")
	default:
		return fmt.Errorf("there is no replica r%d", number)
	}
	switch a {
	case killReplica:
		return d.cluster.kill(name)
	case killWorker:
		return d.cluster.killWorker(name)
	case stopReplica:
		return d.cluster.stop(name)
	case addReplica:
		return d.cluster.add(ctx)
	case nothing, quit:
	}
	return nil
}

// ended says whether all processes have ended for good, and how the last one did.
func ended(v *View) (why string, over bool) {
	for _, r := range v.Replicas {
		if !r.State.Gone() || r.Again {
			return "", false
		}
		why = fmt.Sprintf("%s: %s", r.Name, r.State)
		if r.Why != "" {
			why += ", " + r.Why
		}
	}
	return why, len(v.Replicas) > 0
}

// headerLimit is how long a replica may take to begin an answer. One that was frozen still takes connections.
const headerLimit = 2 * time.Second

// newProxy passes requests on to the first of the addresses, as host:port, that answers. They are asked for again with
// each request, and should be those of live replicas. Host and Origin are the client's: by them a replica refuses what
// other websites ask for.
func newProxy(addresses func() []string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme = "http"
		},
		Transport: &failover{
			addresses: addresses,
			transport: &http.Transport{
				DialContext:           (&net.Dialer{Timeout: headerLimit}).DialContext,
				ResponseHeaderTimeout: headerLimit,
				IdleConnTimeout:       10 * time.Second,
				DisableCompression:    true, // bytes go through as they come
			},
		},
		FlushInterval: -1, // events are not held back
		// A replica that dies in the middle of an answer is what this is for: no line about it on the screen.
		ErrorLog: log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.Header().Set("Retry-After", "1")
			http.Error(
				w, "No replica answers at the moment ("+err.Error()+"). Try again in a second.",
				http.StatusServiceUnavailable,
			)
		},
	}
}

// failover is a transport that tries one address after the other.
type failover struct {
	addresses func() []string
	transport http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A request with a body is tried once: the body is used up by that.
func (f *failover) RoundTrip(r *http.Request) (*http.Response, error) {
	err := fmt.Errorf("no replica runs")
	for _, a := range f.addresses() {
		try := r.Clone(r.Context())
		try.URL.Host = a
		var resp *http.Response
		if resp, err = f.transport.RoundTrip(try); err == nil {
			return resp, nil
		}
		if r.Body != nil && r.Body != http.NoBody || r.Context().Err() != nil {
			break
		}
	}
	return nil, err
}

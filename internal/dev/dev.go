package dev

import (
	"cmp"
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
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/pkg/client"
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
	d := newSession(c, "http://"+listener.Addr().String())
	defer func() {
		if killed := c.close(stopGrace); killed > 0 {
			err = errors.Join(err, fmt.Errorf("%d replicas did not stop within %v and were killed", killed, stopGrace))
		}
	}()
	proxy := newProxy(c.admins)
	proxy.ModifyResponse = func(*http.Response) error { d.answered.Store(true); return nil }
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: 5 * time.Second}
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
	cluster  *cluster
	url      string
	answered atomic.Bool // a replica has answered
	failed   chan error
	said     chan string   // lines for who shows the cluster
	shown    chan struct{} // closed once it is no longer shown

	mu       sync.Mutex
	replicas []Replica // as they were last
	typed    int       // the number typed so far
}

func newSession(c *cluster, url string) *session {
	return &session{
		cluster: c, url: url, failed: make(chan error, 1), said: make(chan string), shown: make(chan struct{}),
	}
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
	asked, err := client.New(d.url)
	if err != nil {
		return err
	}
	live := cli.Live{Client: asked, Out: struct{ io.Writer }{out}, Foot: d.foot, Say: d.said} // no terminal: lines
	pressed := make(chan byte)
	if terminal != nil {
		before, err := term.MakeRaw(int(terminal.In.Fd()))
		if err != nil {
			return fmt.Errorf("read single keys: %w", err)
		}
		defer func() { _ = term.Restore(int(terminal.In.Fd()), before) }() // the terminal is gone, or it works
		live.Out = terminal.Out
		go read(ctx, terminal.In, pressed)
	}
	go func() {
		defer close(d.shown)
		defer func() { // a panic in here would leave the terminal raw and the replicas running
			if p := recover(); p != nil {
				d.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		if err := live.Run(ctx); err != nil {
			d.fail(err)
		}
	}()
	defer func() { cancel(); <-d.shown }()
	return d.loop(ctx, terminal != nil, pressed)
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

// lookEvery is how often the processes are looked at.
const lookEvery = 200 * time.Millisecond

// loop reports what becomes of the processes, and does what keys say.
func (d *session) loop(ctx context.Context, keyed bool, pressed <-chan byte) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	before := map[string]Replica{}
	var k keys
	d.say(ctx, fmt.Sprintf("the page is on %s, logs are in %s", d.url, d.cluster.dir))
	d.say(ctx, "in another terminal: shardctl status --server "+d.url)
	for {
		select {
		case <-ticker.C:
			all := d.cluster.list()
			d.remember(all, k.number)
			for _, r := range all {
				if text := changed(before[r.Name], r); text != "" {
					d.say(ctx, text)
				}
				before[r.Name] = r
			}
			if err := ended(all); err != nil && (!keyed || !d.answered.Load()) {
				return err
			}
		case b := <-pressed:
			a, number := k.press(b)
			if a == quit {
				return nil
			}
			all := d.cluster.list()
			d.remember(all, k.number)
			text := "" // what was typed shows
			if err := d.act(ctx, a, target(all, number), number); err != nil {
				text = err.Error()
			}
			d.say(ctx, text)
		case err := <-d.failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// say has a line shown. An empty one only has the screen drawn again.
func (d *session) say(ctx context.Context, text string) {
	select {
	case d.said <- text:
	case <-d.shown:
	case <-ctx.Done():
	}
}

// act does what a key asks for, to the replica of that name.
func (d *session) act(ctx context.Context, a action, name string, number int) error {
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

func (d *session) remember(all []Replica, typed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replicas, d.typed = all, typed
}

// foot is what the keys do, to which replica, and where more is to be seen.
func (d *session) foot() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := cmp.Or(target(d.replicas, d.typed), "none")
	if d.typed == 0 && len(d.replicas) > 0 {
		name += ", 3k: on r3"
	}
	return []string{
		"k kill -9  w its worker only  s stop  a add  q quit   acts on " + name,
		cli.Printable("logs " + d.cluster.dir + "   shardctl status --server " + d.url),
	}
}

// changed describes what has become of the process of a replica since before; "" if there is nothing to report.
func changed(before, r Replica) string {
	switch {
	case !r.State.Gone() && r.Worker != 0 && (before.Worker == 0 || before.Guard != r.Guard):
		return fmt.Sprintf("%s started: guard %d, worker %d", r.Name, r.Guard, r.Worker)
	case before.Again && r.State == Dead && !r.Again:
		return fmt.Sprintf("%s cannot be started again: %s", r.Name, r.Why)
	case r.State == before.State:
		return ""
	case r.State == Dead && r.Again:
		return fmt.Sprintf("%s died: %s; it is started again in %v", r.Name, r.Why, restartPause)
	case r.State == Dead:
		return fmt.Sprintf("%s died: %s", r.Name, r.Why)
	case r.State == Left:
		return r.Name + " left"
	}
	return ""
}

// ended returns nil while a process runs or is about to be started again, and then how the last one ended. If each has
// found its configuration wrong, that is a [cli.Exit].
func ended(all []Replica) error {
	if len(all) == 0 {
		return nil
	}
	refused := true
	for _, r := range all {
		if !r.State.Gone() || r.Again {
			return nil
		}
		refused = refused && r.Refused
	}
	last := all[len(all)-1]
	why := fmt.Sprintf("%s: %s", last.Name, last.State)
	if last.Why != "" {
		why += ", " + last.Why
	}
	err := fmt.Errorf("no replica is left: %s", why)
	if refused {
		return cli.Exit{Code: cli.CodeConfig, Err: err}
	}
	return err
}

// headerLimit is how long a replica may take to begin an answer. One that was frozen still takes connections.
const headerLimit = 2 * time.Second

// newProxy passes requests on to the first of the addresses, as host:port, that answers. They are asked for again with
// each request, and should be those of live replicas. Host and Origin are the client's: by them a replica refuses what
// other websites ask for.
func newProxy(addresses func() []string) *httputil.ReverseProxy {
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

//go:build unix

package testprocess

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/process"
)

const (
	startTimeout = 2 * time.Minute // a JVM on a machine that is busy
	stopTimeout  = time.Minute     // an orderly end
	pollEvery    = 20 * time.Millisecond
	startTries   = 3 // on other ports, when one that was free has been taken meanwhile; or again on the same ones
	startPause   = 500 * time.Millisecond
)

// ErrExited says that a server's process ended by itself while it started.
var ErrExited = errors.New("the server exited")

// Options are for [Open]. The zero value is a server as tests want it.
type Options struct {
	// Config are lines that follow those of its kind in the server's own configuration file.
	Config []string
	// Ports are those that it listens on, as many as its kind says, from [FreePorts]. Empty: free ones.
	Ports []int
	// Host is an address of this machine that it listens on; empty: [Loopback].
	Host string
}

// Server is a server, running or not. Its methods may be called concurrently.
type Server struct {
	name     string
	software Software
	site     *Site
	thread   *process.Thread // the children die with it

	mu       sync.Mutex // held during each change of state
	children []*child   // of the last start; the last is the server
}

// Open starts a server that keeps its data in dir, which is made when missing, and returns once it serves clients. name
// is for errors and logs. On a quiet machine that takes up to ten seconds. ctx bounds the start only. Call Close at the
// end; dir stays.
func Open(ctx context.Context, name string, software Software, dir string, o Options) (*Server, error) {
	if err := software.Provide(ctx); err != nil {
		return nil, err
	}
	return open(ctx, name, software, dir, o)
}

// open is Open once the programs are found.
func open(ctx context.Context, name string, software Software, dir string, o Options) (*Server, error) {
	account, err := accountFor(software)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("directory of %s: %w", name, err)
	}
	s := &Server{
		name: name, software: software, thread: process.NewThread(),
		site: &Site{Dir: dir, Host: cmp.Or(o.Host, Loopback), Ports: o.Ports, extra: o.Config, account: account},
	}
	for range startTries {
		if len(o.Ports) == 0 {
			s.site.Ports, err = freePorts(ctx, s.site.Host, software.Ports())
		}
		if err != nil {
			break
		}
		if err = s.startTimes(ctx, 1); err == nil {
			return s, nil
		}
		if !errors.Is(err, ErrExited) || ctx.Err() != nil {
			break
		}
	}
	s.Close()
	return nil, err
}

// Start starts it again, on its data and its port, and returns once it serves clients. One that runs is left alone.
//
// One that exits is started again: while it was down another process may have had its port for a moment. And what a
// server that was killed says of its files when it exits lets [Software.Prepare] know what to repair.
func (s *Server) Start(ctx context.Context) error { return s.startTimes(ctx, startTries) }

// startTimes tries so many times.
func (s *Server) startTimes(ctx context.Context, times int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := s.start(ctx)
		if err == nil {
			return nil
		}
		s.kill()
		if times--; times == 0 || !errors.Is(err, ErrExited) {
			return fmt.Errorf("start %s at %s: %w%s", s.name, s.Addr(), err, s.LogTail(10))
		}
		_ = clock.Sleep(ctx, startPause) // the next try says that ctx has ended
	}
}

func (s *Server) start(ctx context.Context) error {
	if err := errors.Join(s.site.MakeDir("."), s.site.reachable()); err != nil {
		return err
	}
	if err := s.software.Prepare(ctx, s.site); err != nil {
		return err
	}
	s.children = nil
	for _, c := range s.software.Commands(s.site) {
		child, err := startChild(s.thread, s.site, c)
		if err != nil {
			return err
		}
		s.children = append(s.children, child)
	}
	return s.waitReady(ctx)
}

// waitReady waits until clients are served, or the server has exited.
func (s *Server) waitReady(ctx context.Context) error {
	server := s.children[len(s.children)-1]
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		failure := s.software.Ready(try, s.site)
		cancel()
		if failure == nil {
			return nil
		}
		select {
		case <-server.done:
			return fmt.Errorf("%w: %w", ErrExited, server.err)
		case <-ctx.Done():
			return fmt.Errorf("it does not serve clients: %w (%w)", failure, context.Cause(ctx))
		case <-time.After(pollEvery):
		}
	}
}

// Kill ends all its processes as kill -9 does, at one moment, and returns once they are gone. The data stays.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

func (s *Server) kill() {
	var all sync.WaitGroup
	for _, c := range s.children {
		all.Go(c.kill)
	}
	all.Wait()
}

// Stop ends it in an orderly way, and returns once it is gone. After a minute it is killed, which is an error.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return nil
	}
	server := s.children[len(s.children)-1]
	started := server.tree()
	server.group(server.stop)
	server.all(syscall.SIGCONT) // a frozen one does not end
	var err error
	select {
	case <-server.done:
	case <-time.After(stopTimeout):
		err = fmt.Errorf("%s at %s has not ended %v after it was asked to, and was killed%s", s.name, s.Addr(),
			stopTimeout, s.LogTail(10))
	}
	s.kill()               // what helped it
	server.finish(started) // and what it left
	return err
}

// Freeze stops all its threads: connections stay open, new ones are taken by the kernel, and nothing answers. It
// returns once they stand still.
func (s *Server) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.children {
		c.freeze()
	}
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.children {
		c.all(syscall.SIGCONT)
	}
}

// Signal sends a signal to the server's first process, if it runs: SIGHUP has many read their configuration again.
func (s *Server) Signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		_ = syscall.Kill(s.children[len(s.children)-1].pid(), sig)
	}
}

// Close kills it for good. Its directory stays. Closing twice does nothing.
func (s *Server) Close() {
	s.Kill()
	if cleaner, ok := s.software.(Cleaner); ok {
		cleaner.Clean(s.site)
	}
	s.thread.Close()
}

func (s *Server) running() bool {
	return len(s.children) > 0 && !s.children[len(s.children)-1].ended()
}

// Addr is HOST:PORT of clients. It stays the same.
func (s *Server) Addr() string { return s.site.Addr(0) }

// Name is what [Open] was given.
func (s *Server) Name() string { return s.name }

// Site is where it lives.
func (s *Server) Site() *Site { return s.site }

// Dir is the directory with its data and its log.
func (s *Server) Dir() string { return s.site.Dir }

// Software is its kind's programs.
func (s *Server) Software() Software { return s.software }

// PID is the process ID of the server last started.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.children[len(s.children)-1].pid()
}

// LogTail is the last lines that the server printed, to be shown when a test fails.
func (s *Server) LogTail(lines int) string {
	text := bytes.TrimSpace(s.site.Output())
	if len(text) == 0 {
		return ""
	}
	all := bytes.Split(text, []byte("\n"))
	var out strings.Builder
	fmt.Fprintf(&out, "\n--- %s at %s", s.name, s.Addr())
	for _, line := range all[max(0, len(all)-lines):] {
		fmt.Fprintf(&out, "\n%s", line)
	}
	return out.String()
}

// Running says whether the server's process runs, frozen or not.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running()
}

// Fixture is a test's [Server]. Its methods fail the test on an error, and so are called in the test's goroutine.
type Fixture struct {
	Addr   string // HOST:PORT of clients
	server *Server
	tb     testing.TB
}

// NewFixture makes a server the test's.
func NewFixture(tb testing.TB, server *Server) *Fixture {
	tb.Helper()
	return &Fixture{Addr: server.Addr(), server: server, tb: tb}
}

// Kill ends it as kill -9 does. The data stays.
func (f *Fixture) Kill() { f.server.Kill() }

// Stop ends it in an orderly way.
func (f *Fixture) Stop() {
	f.tb.Helper()
	if err := f.server.Stop(); err != nil {
		f.tb.Fatal(err)
	}
}

// Start starts it again on the same data and port, and returns once it serves clients.
func (f *Fixture) Start() {
	f.tb.Helper()
	if err := f.server.Start(context.WithoutCancel(f.tb.Context())); err != nil {
		f.tb.Fatal(err)
	}
}

// Freeze stops all its threads: connections stay open and nothing answers.
func (f *Fixture) Freeze() { f.server.Freeze() }

// Thaw lets it go on.
func (f *Fixture) Thaw() { f.server.Thaw() }

// Link puts a proxy in front of it that ends with the test.
func (f *Fixture) Link() *Proxy {
	f.tb.Helper()
	return Link(f.tb, f.Addr)
}

// Server is what runs.
func (f *Fixture) Server() *Server { return f.server }

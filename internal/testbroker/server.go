//go:build unix

package testbroker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/process"
)

const (
	startTimeout = 2 * time.Minute // a JVM on a machine that is busy
	stopTimeout  = time.Minute     // an orderly end
	pollEvery    = 20 * time.Millisecond
	startTries   = 3 // on other ports, when one that was free has been taken meanwhile
)

// ErrExited says that a broker's process ended by itself while it started.
var ErrExited = errors.New("the broker exited")

// Options are for [Open]. The zero value is a broker as tests want it.
type Options struct {
	// Config are lines that follow ours in the broker's own configuration file: server.properties, rabbitmq.conf,
	// mosquitto.conf, redis.conf, nats.conf.
	Config []string
}

// Server is a broker, running or not. Its methods may be called concurrently.
type Server struct {
	kind     Kind
	software software
	site     *site
	thread   *process.Thread // the children die with it

	mu       sync.Mutex // held during each change of state
	children []*child   // of the last start; the last is the broker
}

// Open starts a broker that keeps its data in dir, which is made when missing, and returns once it serves clients. On
// a quiet machine that takes up to ten seconds. ctx bounds the start only. Call Close at the end; dir stays.
func Open(ctx context.Context, kind Kind, dir string, opts Options) (*Server, error) {
	s, err := newSoftware(kind)
	if err != nil {
		return nil, err
	}
	if err := s.provide(ctx); err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("directory of %s: %w", kind, err)
	}
	b := &Server{
		kind: kind, software: s, site: &site{dir: dir, extra: opts.Config}, thread: process.NewThread(),
	}
	for range startTries {
		if b.site.ports, err = freePorts(ctx, s.ports()); err != nil {
			break
		}
		if err = b.Start(ctx); err == nil {
			return b, nil
		}
		if !errors.Is(err, ErrExited) || ctx.Err() != nil {
			break
		}
	}
	b.Close()
	return nil, err
}

// Addr is HOST:PORT of clients. It stays the same.
func (b *Server) Addr() string { return b.site.addr(0) }

// Kind is the broker's.
func (b *Server) Kind() Kind { return b.kind }

// Dir is the directory with its data and its log.
func (b *Server) Dir() string { return b.site.dir }

// PID is the process ID of the broker last started.
func (b *Server) PID() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.children[len(b.children)-1].pid()
}

// Start starts it again, on its data and its port, and returns once it serves clients. One that runs is left alone.
func (b *Server) Start(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := b.start(ctx); err != nil {
		b.signal(syscall.SIGKILL)
		b.wait()
		return fmt.Errorf("start %s at %s: %w%s", b.kind, b.Addr(), err, b.LogTail(10))
	}
	return nil
}

func (b *Server) start(ctx context.Context) error {
	if err := makeDir(b.site.dir); err != nil {
		return err
	}
	if err := b.software.prepare(ctx, b.site); err != nil {
		return err
	}
	b.children = nil
	for _, c := range b.software.commands(b.site) {
		child, err := startChild(b.thread, b.site, c)
		if err != nil {
			return err
		}
		b.children = append(b.children, child)
	}
	return b.waitReady(ctx)
}

// waitReady waits until clients are served, or the broker has exited.
func (b *Server) waitReady(ctx context.Context) error {
	broker := b.children[len(b.children)-1]
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		failure := b.software.ready(try, b.site)
		cancel()
		if failure == nil {
			return nil
		}
		select {
		case <-broker.done:
			return fmt.Errorf("%w: %w", ErrExited, broker.err)
		case <-ctx.Done():
			return fmt.Errorf("it does not serve clients: %w (%w)", failure, context.Cause(ctx))
		case <-time.After(pollEvery):
		}
	}
}

// Kill ends it as kill -9 does, and returns once it is gone. The data stays.
func (b *Server) Kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signal(syscall.SIGKILL)
	b.wait()
}

// Stop ends it in an orderly way (SIGTERM), and returns once it is gone. After a minute it is killed, which is an
// error.
func (b *Server) Stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.running() {
		return nil
	}
	broker := b.children[len(b.children)-1]
	broker.signal(syscall.SIGTERM)
	broker.signal(syscall.SIGCONT) // a frozen one does not end
	var err error
	select {
	case <-broker.done:
	case <-time.After(stopTimeout):
		err = fmt.Errorf("%s at %s has not ended %v after SIGTERM and was killed%s", b.kind, b.Addr(), stopTimeout,
			b.LogTail(10))
	}
	b.signal(syscall.SIGKILL) // what helped it, and what it left
	b.wait()
	return err
}

// Freeze stops all its threads: connections stay open, new ones are taken by the kernel, and nothing answers. It
// returns once they stand still.
func (b *Server) Freeze() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signal(syscall.SIGSTOP)
	for _, c := range b.children {
		c.waitFrozen()
	}
}

// Thaw lets a frozen broker go on.
func (b *Server) Thaw() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signal(syscall.SIGCONT)
}

// Close kills it for good. Its directory stays. Closing twice does nothing.
func (b *Server) Close() {
	b.Kill()
	b.thread.Close()
}

// running says whether the broker's process runs, frozen or not.
func (b *Server) running() bool {
	return len(b.children) > 0 && !b.children[len(b.children)-1].ended()
}

// signal reaches all processes.
func (b *Server) signal(sig syscall.Signal) {
	for _, c := range b.children {
		c.signal(sig)
	}
}

// wait waits for the end of all.
func (b *Server) wait() {
	for _, c := range b.children {
		<-c.done
	}
}

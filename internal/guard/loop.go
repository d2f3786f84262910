package guard

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
)

// loop is all of the guard's input and output: the socket, signals, timers, and its children. It takes what happens to
// the core and has done what that returns. One goroutine, run, owns it; the others only wait for something on its
// behalf.
type loop struct {
	x          *executor
	core       *core
	cfg        Config
	children   *children
	marking    *marking
	foreground *foreground
	incoming   chan wire.Message
	held       []*os.File // locks that are the worker's, and this process's once it has died
}

func newLoop(cfg Config) *loop {
	x := newExecutor(cfg)
	return &loop{
		x: x, core: x.core, cfg: cfg, marking: newMarking(x, cfg), foreground: &foreground{x: x, cfg: cfg},
		children: &children{x: x, collect: process.ReapAny, list: cfg.listChildren, stops: cfg.terminal},
		incoming: make(chan wire.Message),
	}
}

func (l *loop) run(ctx context.Context) (int, error) {
	signals := make(chan os.Signal, 8)
	defer signal.Stop(signals)
	defer l.foreground.begin(signals)()
	// Caught and left unread, not ignored: what is ignored stays so in everything that is started.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	defer signal.Stop(unread)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)

	defer l.x.cgroups.close()
	var err error
	if l.x.worker, l.x.conn, err = startWorker(l.cfg, l.x.cgroups.dir); err != nil {
		return 1, err
	}
	down, finish := l.begin(ctx)
	defer finish()
	l.serve(ctx, signals, ended, down)
	err = l.marking.mark(context.WithoutCancel(ctx), l.children.nothingLeft(), signals)
	return l.core.shutdown.exitCode(l.cfg.Foreground), err
}

// begin starts the goroutines that wait for the loop. down gets the error that ended the socket; finish ends them all.
func (l *loop) begin(ctx context.Context) (down <-chan error, finish func()) {
	var helpers sync.WaitGroup
	stopped, ends := make(chan struct{}), make(chan error, 1)
	helpers.Go(func() {
		ends <- l.x.conn.Read(func(m wire.Message) {
			select {
			case l.incoming <- m:
			case <-stopped:
				process.CloseFiles(m.Files...)
			}
		})
	})
	helpers.Go(l.x.journal.write)
	helpers.Go(l.x.signaller.run)
	keeping, endKeeping := context.WithCancel(context.WithoutCancel(ctx))
	helpers.Go(func() { l.x.keepSessions(keeping) })
	l.marking.prepare(ctx)
	return ends, func() {
		close(stopped)
		l.x.conn.Shut(wire.ErrClosed)
		l.x.spawner.Close()
		l.x.signaller.close()
		endKeeping()
		l.x.journal.close()
		helped := make(chan struct{})
		go func() {
			helpers.Wait()
			close(helped)
		}()
		select {
		case <-helped:
		case <-time.After(time.Second): // a log that is not read: not worth waiting for
		}
	}
}

// serve returns when the worker has ended and nothing is left, or when the lease is over for all others.
func (l *loop) serve(ctx context.Context, signals, ended <-chan os.Signal, down <-chan error) {
	done := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case m := <-l.incoming:
			l.received(m)
		case err := <-down:
			if errors.Is(err, wire.ErrUnreadable) {
				values := []any{"error", err.Error()}
				l.x.journal.add(note{level: levelError, text: "The worker is ended", values: values})
			}
			l.x.do(l.core.shutdown.socketEnded(wire.Now()))
		case s := <-signals:
			if s, ok := s.(syscall.Signal); ok && !l.foreground.took(s) {
				l.x.do(l.core.shutdown.signalled(s, wire.Now()))
			}
		case <-done:
			done = nil
			l.x.do(l.core.shutdown.signalled(syscall.SIGTERM, wire.Now()))
		case <-ended:
		case <-l.x.cgroups.changes:
			l.core.commands.listStale = true
		case <-l.x.cgroups.lost: //nolint:errcheck // whatever was lost: a list of children finds it
			l.core.commands.listStale = true
		case s := <-l.x.scans:
			l.x.scanned(s)
		case r := <-l.x.signaller.refused:
			l.core.commands.refused(r)
		case k := <-l.x.kept:
			l.x.do(l.core.kept(k, wire.Now()))
		case <-timer.C:
		}
		more := l.children.reap()
		if l.foreground.follow(l.children.takeStopped()) {
			l.catchUp()
		}
		now := wire.Now()
		l.x.do(l.core.advance(now))
		if l.core.shutdown.over(now, l.children.nothingLeft(), l.core.mustKeep()) {
			return
		}
		if timer.Reset(l.core.next(now)); more {
			timer.Reset(0)
		}
	}
}

// catchUp takes what the worker sent while this process was stopped: later deadlines may be among it.
func (l *loop) catchUp() {
	for {
		select {
		case m := <-l.incoming:
			l.received(m)
		case <-time.After(suspendLimit):
			return
		}
	}
}

// received takes a message from the worker.
func (l *loop) received(m wire.Message) {
	switch m.Body.(type) {
	case wire.HoldLock:
		l.held = append(l.held, m.Files...)
		return
	case wire.SessionOpening:
		l.marking.sessionOpening()
	}
	l.x.do(l.core.received(m, wire.Now()))
	process.CloseFiles(m.Files...)
}

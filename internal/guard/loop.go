package guard

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// loop is all of the guard's input and output: the socket, signals, timers, and its children. It takes what happens to
// the machines and does what they return. One goroutine, run, owns it; the others only wait for something on its
// behalf.
type loop struct {
	cfg    Config
	worker int // the worker's process
	conn   *conn

	table       *table
	leases      *leases
	shutdown    *shutdown
	obstruction obstruction

	spawner  *process.Spawner
	journal  *journal
	marking  *marking
	incoming chan message
	surveys  chan surveyed

	nextPing  protocol.Instant
	childless bool       // the last wait found no child at all
	held      []*os.File // locks that are the worker's, and this process's once it has died
}

func newLoop(cfg Config) *loop {
	return &loop{
		cfg: cfg, table: newTable(), leases: newLeases(), shutdown: newShutdown(),
		spawner: process.NewSpawner(), journal: newJournal(cfg.Log), marking: newMarking(cfg),
		incoming: make(chan message), surveys: make(chan surveyed, 1),
	}
}

func (l *loop) run(ctx context.Context) (int, error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	// Caught and left unread, not ignored: what is ignored stays so in everything that is started. A log that is not
	// read any more must not end the guard either.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE)
	defer signal.Stop(unread)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)

	var err error
	if l.worker, l.conn, err = startWorker(l.cfg); err != nil {
		return 1, err
	}
	down, finish := l.begin(ctx)
	defer finish()
	l.serve(ctx, signals, ended, down)
	err = l.mark(context.WithoutCancel(ctx), signals)
	return l.shutdown.exitCode(), err
}

// begin starts what waits on the loop's behalf: down delivers the socket's end, and finish ends all of it.
func (l *loop) begin(ctx context.Context) (down <-chan error, finish func()) {
	var helpers sync.WaitGroup
	stopped, ends := make(chan struct{}), make(chan error, 1)
	helpers.Go(func() {
		ends <- l.conn.read(fromWorker, func(m message) {
			select {
			case l.incoming <- m:
			case <-stopped:
				closeFiles(m.files)
			}
		})
	})
	helpers.Go(l.journal.write)
	l.marking.prepare(ctx, l.journal)
	return ends, func() {
		close(stopped)
		l.conn.shut(errClosed)
		l.spawner.Close()
		l.journal.close()
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

// serve returns when the worker has ended and nothing is left, or when waiting any longer is in vain.
func (l *loop) serve(ctx context.Context, signals, ended <-chan os.Signal, down <-chan error) {
	done := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case m := <-l.incoming:
			l.handle(m)
		case err := <-down:
			if errors.Is(err, errMalformed) {
				values := []any{"error", err.Error()}
				l.journal.add(note{level: levelError, text: "The worker is ended", values: values})
			}
			l.do(l.shutdown.socketEnded(Now()))
		case s := <-signals:
			if s, ok := s.(syscall.Signal); ok {
				l.do(l.shutdown.signalled(s, Now()))
			}
		case <-done:
			done = nil
			l.do(l.shutdown.signalled(syscall.SIGTERM, Now()))
		case <-ended:
		case s := <-l.surveys:
			l.do(l.table.surveyed(s, Now()))
		case <-timer.C:
		}
		l.reap()
		now := Now()
		l.advance(now)
		if l.shutdown.over(now, l.nothingLeft()) {
			return
		}
		timer.Reset(l.pause(now))
	}
}

// advance does whatever has come due.
func (l *loop) advance(now protocol.Instant) {
	for _, lapse := range l.leases.advance(now) {
		l.do(l.table.lapsed(lapse, now))
	}
	l.do(l.table.advance(now))
	l.do(l.shutdown.advance(now))
	if l.table.surveyDue(now) {
		l.survey()
	}
	if l.shutdown.died != nil {
		return
	}
	if l.cfg.Obstructs != nil && l.obstruction.due(l.leases.over(now), l.shutdown.lease, now) &&
		l.obstruction.seen(l.cfg.Obstructs(l.worker)) {
		l.journal.add(note{text: "The worker keeps others from the store, and its lease is over: ending it"})
		l.do(l.shutdown.killWorker())
	}
	if reached(l.nextPing, now) {
		l.send(&ping{})
		l.nextPing = now.Add(l.shutdown.lease / 20)
	}
}

// pause is how long the loop may sleep: at most T/50, so that no deadline hangs on one timer.
func (l *loop) pause(now protocol.Instant) time.Duration {
	wait := max(l.shutdown.lease/50, time.Millisecond)
	for _, next := range []func(protocol.Instant) (time.Duration, bool){l.leases.next, l.table.next, l.shutdown.next} {
		if left, ok := next(now); ok {
			wait = min(wait, left)
		}
	}
	return max(wait, 0)
}

// do does what a machine has returned.
func (l *loop) do(effects []effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case say:
			l.send(e.body)
		case signalGroup:
			process.SignalGroup(e.pid, e.signal)
			if e.signal == unix.SIGKILL {
				_ = unix.Kill(e.pid, e.signal)
			}
		case signalProcs:
			for _, p := range e.procs {
				p.Signal(e.signal)
			}
		case probe:
			l.do(l.table.probed(e.id, alive(e.pids), e.pastX))
		case killCommands:
			l.do(l.table.killAll(e.orphaned, Now()))
		case killWorker:
			_ = unix.Kill(l.worker, unix.SIGKILL)
		case note:
			l.journal.add(e)
		}
	}
}

// send queues a message for the worker. One that reads so little that the queue is full is as good as dead.
func (l *loop) send(b body) {
	if err := l.conn.send(b); errors.Is(err, errQueueFull) {
		l.do(l.shutdown.killWorker())
	}
}

// nothingLeft says whether every process but the guard is gone. A subreaper without children has nothing below it
// either.
func (l *loop) nothingLeft() bool {
	return l.shutdown.silent() && l.childless && (process.CanFind || len(l.table.commands) == 0)
}

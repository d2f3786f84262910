package guard

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// loop is all of the guard's input and output: the socket, signals, timers, and its children. It takes what happens to
// the machines and does what they return. One goroutine, run, owns it; the others only wait for something on its
// behalf.
type loop struct {
	*machines
	cfg         Config
	inbox       *inbox
	children    *children
	marking     *marking
	obstruction obstruction
	foreground  *foreground

	incoming chan message
	nextPing protocol.Instant
}

func newLoop(cfg Config) *loop {
	m := newMachines(cfg)
	l := &loop{
		machines: m, cfg: cfg, children: newChildren(m, cfg), marking: newMarking(m, cfg),
		foreground: &foreground{machines: m, cfg: cfg}, incoming: make(chan message),
	}
	l.inbox = &inbox{machines: m, spawner: process.NewSpawner(), greeted: l.greeted, opening: l.marking.opening}
	return l
}

// greeted takes a hello: the worker counts silence by that lease from now on.
func (l *loop) greeted() {
	l.nextPing = Now()
}

func (l *loop) run(ctx context.Context) (int, error) {
	signals := make(chan os.Signal, 8)
	defer signal.Stop(signals)
	defer l.foreground.begin(signals)()
	// Caught and left unread, not ignored: what is ignored stays so in everything that is started. A log that is not
	// read any more must not end the guard either.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE)
	defer signal.Stop(unread)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)

	defer l.cgroups.close()
	var err error
	if l.worker, l.conn, err = startWorker(l.cfg, l.cgroups.dir); err != nil {
		return 1, err
	}
	down, finish := l.begin(ctx)
	defer finish()
	l.serve(ctx, signals, ended, down)
	err = l.marking.mark(context.WithoutCancel(ctx), l.children.nothingLeft(), signals)
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
	l.marking.prepare(ctx)
	return ends, func() {
		close(stopped)
		l.conn.shut(errClosed)
		l.inbox.spawner.Close()
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
			l.inbox.handle(m)
		case err := <-down:
			if errors.Is(err, errMalformed) {
				values := []any{"error", err.Error()}
				l.journal.add(note{level: levelError, text: "The worker is ended", values: values})
			}
			l.do(l.shutdown.socketEnded(Now()))
		case s := <-signals:
			if s, ok := s.(syscall.Signal); ok && !l.foreground.took(s) {
				l.do(l.shutdown.signalled(s, Now()))
			}
		case <-done:
			done = nil
			l.do(l.shutdown.signalled(syscall.SIGTERM, Now()))
		case <-ended:
		case <-l.cgroups.changes:
			l.table.watch.stale = true
		case <-l.cgroups.lost: //nolint:errcheck // whatever was lost: a look finds it
			l.table.watch.stale = true
		case w := <-l.children.surveys:
			l.do(l.table.surveyed(l.children.sort(w), Now()))
		case <-timer.C:
		}
		l.children.reap()
		if l.foreground.follow(l.children) {
			l.catchUp()
		}
		now := Now()
		l.advance(now)
		if l.shutdown.over(now, l.children.nothingLeft()) {
			return
		}
		timer.Reset(l.pause(now))
	}
}

// catchUp takes what the worker said while this process was stopped: its deadlines have moved since.
func (l *loop) catchUp() {
	for {
		select {
		case m := <-l.incoming:
			l.inbox.handle(m)
		case <-time.After(suspendLimit):
			return
		}
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
		l.children.survey()
	}
	if l.shutdown.died != nil {
		return
	}
	if runs := l.leases.overstayed(now); runs > 0 && !l.shutdown.killed {
		text := "The lease is over and tasks still run in the worker: ending it"
		l.journal.add(note{text: text, values: []any{"tasks", runs}})
		l.do(l.shutdown.killWorker())
	}
	if l.cfg.Obstructs != nil && l.obstruction.due(l.leases.over(now), l.shutdown.lease, now) &&
		l.obstruction.seen(l.cfg.Obstructs(l.worker)) {
		l.journal.add(note{text: "The worker keeps others from the store, and its lease is over: ending it"})
		l.do(l.shutdown.endObstructing())
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

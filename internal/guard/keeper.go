package guard

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

const (
	defaultShutdown = 25 * time.Second       // until the worker has told the real one
	afterDrain      = 3 * time.Second        // for the worker to exit once its tasks had to be killed
	afterHardStop   = 500 * time.Millisecond // for the worker to exit by itself
	afterBye        = 5 * time.Second        // between a goodbye and a kill
	spawnQueue      = 2 * startsAtOnce       // starts that may wait; the worker has at most half of it under way
)

// keeper is the guard's state. One goroutine, run, owns all of it; the others only wait for something on its behalf.
type keeper struct {
	cfg      Config
	conn     *conn
	worker   worker
	hello    bool
	lease    time.Duration
	shutdown time.Duration

	sessions map[string]*ledger
	kids     map[uint64]*child
	leaders  map[int]*child          // commands not reaped yet, by pid
	ending   map[uint64]*child       // commands that were asked to end, or have ended and left something
	early    map[int]unix.WaitStatus // reaped before the spawner could tell whose they were

	spawning  int    // orders with the spawner
	reaps     uint64 // children reaped so far
	childless bool   // the last wait found no child at all
	eof       bool   // everything the worker ever said has been read

	looking         bool             // a survey is under way
	nextLook        protocol.Instant // not before
	gap             time.Duration
	purge           bool // strays are to be killed, too
	nextPing        protocol.Instant
	nextObstruction protocol.Instant // when to ask next whether the worker obstructs the store
	obstructing     int              // how often in a row it did

	held []*os.File // locks that are the worker's, and this process's once it has died

	draining bool
	drainBy  protocol.Instant
	hard     syscall.Signal // the signal of a hard stop; zero: none
	hardBy   protocol.Instant
	overran  bool // the shutdown's time-out has been acted upon

	orders   chan spawnOrder
	results  chan spawned
	incoming chan message
	down     chan error
	surveys  chan surveyed
	notes    chan func(logr.Logger)
	helpers  sync.WaitGroup
	stopped  chan struct{}

	preparing   sync.WaitGroup
	stopPrepare context.CancelFunc
	helloed     chan struct{} // closed at the first hello
}

// surveyed is a survey and how many children had been reaped when it began.
type surveyed struct {
	survey
	reaps uint64
}

func newKeeper(cfg Config) (*keeper, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &keeper{
		cfg: cfg, lease: defaultLease, shutdown: defaultShutdown,
		sessions: map[string]*ledger{}, kids: map[uint64]*child{}, leaders: map[int]*child{},
		ending: map[uint64]*child{}, early: map[int]unix.WaitStatus{},
		orders: make(chan spawnOrder, spawnQueue), results: make(chan spawned, 1),
		incoming: make(chan message), down: make(chan error, 1), surveys: make(chan surveyed, 1),
		notes: make(chan func(logr.Logger), 256), stopped: make(chan struct{}), helloed: make(chan struct{}),
	}
	return g, becomeSubreaper()
}

func (g *keeper) run(ctx context.Context) (int, error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	// Caught and left unread, not ignored: what is ignored stays so in everything that is started. A log that nobody
	// reads any more must not end the guard either.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE)
	defer signal.Stop(unread)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)

	if err := g.begin(ctx); err != nil {
		return 1, err
	}
	defer g.finish()
	g.serve(ctx, signals, ended)
	err := g.mark(context.WithoutCancel(ctx), signals)
	return g.exitCode(), err
}

// begin starts the worker and whoever waits on the loop's behalf.
func (g *keeper) begin(ctx context.Context) error {
	pid, conn, err := startWorker(g.cfg)
	if err != nil {
		return err
	}
	g.worker.pid, g.conn = pid, conn
	g.helpers.Go(func() { spawn(g.orders, g.results) })
	g.helpers.Go(func() {
		g.down <- conn.read(func(m message) {
			select {
			case g.incoming <- m:
			case <-g.stopped:
				closeFiles(m.files)
			}
		})
	})
	g.helpers.Go(g.log)
	g.startPreparing(ctx)
	return nil
}

// finish ends what begin started. Nothing is left of the tasks, or the guard has given up.
func (g *keeper) finish() {
	close(g.stopped)
	g.conn.shut(errClosed)
	close(g.orders)
	close(g.notes)
	helped := make(chan struct{})
	go func() {
		g.helpers.Wait()
		close(helped)
	}()
	select {
	case <-helped:
	case <-time.After(time.Second): // a log that nobody reads, a start from a file system that hangs: not worth waiting for
	}
}

// serve is the loop. It returns when the worker has ended and nothing is left, or when waiting any longer is in vain.
func (g *keeper) serve(ctx context.Context, signals, ended <-chan os.Signal) {
	done := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case m := <-g.incoming:
			g.handle(m)
		case err := <-g.down:
			g.socketEnded(err)
		case s := <-signals:
			if s, ok := s.(syscall.Signal); ok {
				g.signalled(s)
			}
		case <-done:
			done = nil
			g.signalled(syscall.SIGTERM)
		case <-ended:
		case r := <-g.results:
			g.started(r)
		case s := <-g.surveys:
			g.act(s)
		case <-timer.C:
		}
		g.reap()
		now := Now()
		g.advance(now)
		if g.over(now) {
			return
		}
		timer.Reset(g.pause(now))
	}
}

// over says whether the guard's work with processes is done.
func (g *keeper) over(now protocol.Instant) bool {
	if g.worker.alive() {
		return false
	}
	if g.nothingLeft() {
		return true
	}
	// Others have waited the lease out by now; something that cannot be killed is no reason to stay.
	return reached(g.worker.died.Add(g.lease), now)
}

// advance does whatever has come due.
func (g *keeper) advance(now protocol.Instant) {
	g.checkDeadlines(now)
	g.checkObstruction(now)
	g.checkStops(now)
	g.checkShutdown(now)
	g.lookIfDue(now)
	if g.worker.alive() && reached(g.nextPing, now) {
		g.tell(message{Kind: kindPing})
		g.nextPing = now.Add(g.lease / 20)
	}
}

// pause is how long the loop may sleep: at most T/50, so that no deadline hangs on one timer.
func (g *keeper) pause(now protocol.Instant) time.Duration {
	wait := max(g.lease/50, time.Millisecond)
	for _, l := range g.sessions {
		if left, ok := l.deadlines.next(now); ok {
			wait = min(wait, left)
		}
	}
	for _, c := range g.ending {
		if c.stopping && !c.killing {
			wait = min(wait, holderLeft(c.killAt, now))
		}
	}
	if g.mustLook() && !g.looking {
		wait = min(wait, holderLeft(g.nextLook, now))
	}
	for _, at := range g.limits() {
		if left := holderLeft(at, now); left > 0 {
			wait = min(wait, left)
		}
	}
	return max(wait, 0)
}

// tell queues a record for the worker. One that reads so little that the queue is full is as good as dead.
func (g *keeper) tell(m message) {
	if err := g.conn.send(m); errors.Is(err, errQueueFull) {
		g.killWorker()
	}
}

// note has something logged. It never waits: the guard's deadlines do not depend on who reads its log.
func (g *keeper) note(line func(logr.Logger)) {
	select {
	case g.notes <- line:
	default:
	}
}

func (g *keeper) log() {
	for line := range g.notes {
		line(g.cfg.Log)
	}
}

package linearizability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
)

// clock is what the database's clients take the time from.
func (db database) clock() elect.Clock {
	if db.virtual {
		return elect.GoClock()
	}
	return elect.SystemClock()
}

// lease is T, as short as it may be: take-overs are to be many.
const lease = time.Second

// elector is one process's elector, with a store of its own.
type elector struct {
	n     int
	store *unreliable
	e     *elect.Elector
	life  context.Context // of Run
	stop  context.CancelFunc
	ended chan error
	// killed is the moment from which nothing of it exists; 0: it lives.
	killed atomic.Int64
	mu     sync.Mutex // guards the store's way against healing after death
}

func newElector(n int, db *unreliable, clock elect.Clock) (*elector, error) {
	x := &elector{n: n, store: db, ended: make(chan error, 1)}
	e, err := elect.New(elect.Config{
		Clock: clock,
		Store: db, Member: elect.Member{Instance: fmt.Sprint("e", n)}, LeaseDuration: lease, Logger: logr.Discard(),
		OnStuck: func([]elect.Key) { x.kill() }, // the process would exit
	})
	if err != nil {
		return nil, err
	}
	x.e = e
	x.life, x.stop = context.WithCancel(context.Background())
	if err := e.Start(x.life); err != nil {
		return nil, err
	}
	go func() { x.ended <- e.Wait() }()
	return x, nil
}

// kill is kill -9, as far as it goes within one process. Nothing more gets to the store, and what runs does not count
// any more.
func (x *elector) kill() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.store.sever()
	x.killed.CompareAndSwap(0, now())
	x.stop()
}

// heal joins it to the database again, unless it is dead.
func (x *elector) heal() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.killed.Load() == 0 {
		x.store.heal()
	}
}

// alive is the moment at which something came to its end: now, or when it was killed.
func (x *elector) alive(at int64) (int64, bool) {
	if k := x.killed.Load(); k != 0 && k < at {
		return k, false
	}
	return at, true
}

// wait waits until the elector has ended, and closes its store.
func (x *elector) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-x.ended:
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("e%d: Run = %v", x.n, err)
		}
	case <-time.After(time.Minute):
		t.Errorf("e%d has not ended; it holds %v", x.n, x.e.HoldingKeys())
		return
	}
	closeStore(t, x.store)
}

// way is how a run comes to its end.
type way uint8

const (
	byItself way = iota
	byUnlock
	byMaxHold
	byDeadline // held on for so long that something happens to it
	ways
)

func (w way) String() string {
	return map[way]string{
		byItself: "ends by itself", byUnlock: "unlocked", byMaxHold: "held at most", byDeadline: "held on",
	}[w]
}

// worker locks keys with one elector, one after the other.
type worker struct {
	x      *elector
	random *rand.Rand
	keys   func() *lockKey // the next one
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil && w.x.life.Err() == nil {
		w.lock(ctx, w.keys())
	}
}

// lock tries a key once, and sees its run through.
func (w *worker) lock(ctx context.Context, k *lockKey) {
	end, hold := way(w.random.IntN(int(byDeadline))), upTo(w.random, 60*time.Millisecond)
	if w.random.IntN(40) == 0 {
		end, hold = byDeadline, upTo(w.random, 3*lease)
	}
	opts := elect.LockOptions{}
	if end == byMaxHold {
		opts.MaxHold = hold + time.Millisecond
	}
	t := &try{who: w.x.n, sure: true}
	if w.random.IntN(3) == 0 {
		opts.Wait, t.sure = upTo(w.random, 400*time.Millisecond)+time.Millisecond, false
	}
	call := ctx
	if w.random.IntN(5) == 0 {
		var cancel context.CancelFunc
		call, cancel = context.WithTimeout(ctx, upTo(w.random, 30*time.Millisecond))
		defer cancel()
		t.sure = false
	}
	work := &work{
		x: w.x, k: k, try: t, hold: hold, end: end, steps: w.random.IntN(4),
		linger: upTo(w.random, 15*time.Millisecond), over: make(chan struct{}),
		values: valueUser{x: w.x, of: &k.value, random: rand.New(rand.NewPCG(w.random.Uint64(), 1))},
	}
	t.call = now()
	t.ok, t.err = w.x.e.LockWith(call, elect.Key(k.key), opts, work.run)
	t.lineage = w.x.store.known()
	end1, lives := w.x.alive(now())
	if t.end = end1; !lives {
		t.ok, t.err = false, errCut // the caller was not informed
	}
	k.mu.Lock()
	k.try = append(k.try, t)
	k.mu.Unlock()
	if !t.ok {
		return
	}
	if end == byUnlock {
		w.unlock(ctx, k, work)
	}
	select {
	case <-work.over:
	case <-w.x.e.Done():
	}
}

// unlock gives the key up while it runs, or finds that it is given up already.
func (w *worker) unlock(ctx context.Context, k *lockKey, work *work) {
	select {
	case <-time.After(work.hold):
	case <-w.x.e.Done():
		return
	}
	lineage := w.x.store.known()
	if w.x.e.Unlock(ctx, elect.Key(k.key)) != nil {
		return
	}
	freed := now()
	// That it is released is sure only of a session that still stands: one that is lost frees its keys later.
	view := w.x.e.Cluster().View()
	select {
	case <-work.over:
	default:
		return
	}
	if _, lives := w.x.alive(freed); !lives || !view.Open || view.Session != work.session ||
		!errors.Is(work.cause, elect.ErrReleased) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if work.started != nil {
		work.started.freed, work.started.freedIn = freed, lineage
	}
}

// work is what runs under a lock, and writes its history.
type work struct {
	x      *elector
	k      *lockKey
	try    *try
	hold   time.Duration
	linger time.Duration // from being asked to end to the end
	end    way
	steps  int // advances of the token on the way

	values  valueUser
	started *run
	session string
	cause   error
	over    chan struct{}
}

func (w *work) run(ctx context.Context, lease *elect.Lease) error {
	defer close(w.over)
	entered := now()
	if _, lives := w.x.alive(entered); !lives {
		w.k.mu.Lock()
		defer w.k.mu.Unlock()
		w.try.dead = true
		return nil
	}
	w.session = lease.Session()
	w.k.mu.Lock()
	r := &run{
		n: len(w.k.runs) + 1, who: w.x.n, token: lease.Token(), called: w.try.call, entered: entered,
		how: w.end.String(),
	}
	w.k.runs = append(w.k.runs, r)
	w.started, w.try.run = r, r.n
	w.k.mu.Unlock()
	w.values.begin(lease)
	w.values.use(ctx)
	w.work(ctx, lease, r)
	w.cause = context.Cause(ctx)
	left, lives := w.x.alive(now())
	w.k.mu.Lock()
	defer w.k.mu.Unlock()
	r.left, r.lost = left, !lives || errors.Is(w.cause, elect.ErrLeaseLost)
	return nil
}

// work goes on until the time is over or the key is to be given up, and a little beyond.
func (w *work) work(ctx context.Context, lease *elect.Lease, r *run) {
	var own <-chan time.Time
	if w.end == byItself || w.end == byDeadline {
		own = time.After(w.hold)
	}
	pace := time.NewTicker(max(w.hold/4, 5*time.Millisecond))
	defer pace.Stop()
	for {
		select {
		case <-own:
			w.look(lease, r)
			return
		case <-ctx.Done():
			time.Sleep(w.linger)
			w.look(lease, r)
			return
		case <-pace.C:
			if w.steps > 0 {
				w.steps--
				w.advance(ctx, lease, r)
			}
			w.values.use(ctx)
			w.look(lease, r)
		}
	}
}

// look notes that the run goes on while its lease says that it may.
func (w *work) look(lease *elect.Lease, r *run) {
	if len(r.uses) > 20 {
		return
	}
	u := use{span: span{call: now()}, token: lease.Token()}
	valid := lease.Valid()
	u.end = now()
	if _, lives := w.x.alive(u.end); valid && lives && lease.Token() == u.token {
		w.note(r, u)
	}
}

// advance takes a new token, as a restart does.
func (w *work) advance(ctx context.Context, lease *elect.Lease, r *run) {
	u := use{span: span{call: now()}, advanced: true}
	token, err := lease.Advance(ctx, elect.TaskStatus{State: "running"})
	u.end, u.token = now(), token
	if _, lives := w.x.alive(u.end); err == nil && lives {
		w.note(r, u)
		w.values.begin(lease)
	}
}

func (w *work) note(r *run, u use) {
	w.k.mu.Lock()
	defer w.k.mu.Unlock()
	r.uses = append(r.uses, u)
}

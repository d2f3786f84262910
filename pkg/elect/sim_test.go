package elect_test

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

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// The simulation runs several electors, each under a balancer's loop, on one store, under a script of faults. It asks:
// never two runs of one key at once; tokens that strictly rise; no cap exceeded. Once the faults have ended, every key
// must run again within a bound. Scripts are drawn by rapid: one that fails is made as short as it can be.

const (
	simNodes = 4
	simKeys  = 10
	simExtra = 3 // keys taken with Lock, beside those that the loops spread

	afterHands = 6 * lease
)

// sim is one simulated cluster.
type sim struct {
	t      *testing.T
	seed   uint64
	broken bool // its store ignores revisions
	store  *memory.Store
	nodes  []*simNode
	next   int
	list   simList // for those who start

	unended atomic.Bool // some elector could not end its session

	mu     sync.Mutex
	active map[elect.Key]map[*simNode]int64 // who runs it, and under which token
	tokens map[elect.Key]int64
	// manually: two runs are not held against anybody for a while, longer where answers are lost
	touched map[elect.Key]time.Time
	starts  int
	trace   []string
	wrong   []string // what must not be, in words that are the same in every run
}

// simList is one revision of the task list, with the cap that comes with it.
type simList struct {
	revision int
	first    int // of the keys
	limit    int
}

func (l simList) declared() reconcile.Declared {
	g := reconcile.DeclaredGroup{Name: "g", Hash: l.hash()}
	for _, key := range l.keys() {
		g.Keys = append(g.Keys, reconcile.DeclaredKey{Key: key, Weight: 1})
	}
	return reconcile.Declared{Revision: int64(l.revision), Groups: []reconcile.DeclaredGroup{g}}
}

func (l simList) hash() string { return fmt.Sprint("from ", l.first) }

func (l simList) keys() []elect.Key {
	var keys []elect.Key
	for i := range simKeys {
		keys = append(keys, elect.NewKey("g", fmt.Sprint(l.first+i)))
	}
	return keys
}

func (l simList) member() elect.Member {
	return elect.Member{
		ListRevision: int64(l.revision), ListHashes: map[string]string{"g": l.hash()},
		Caps: map[string]int{"g": l.limit},
	}
}

// declarer is a balancer's loop.
type declarer interface {
	Run(ctx context.Context) error
	Declare(ctx context.Context, d reconcile.Declared) error
}

func newSim(t *testing.T, seed uint64, broken bool) *sim {
	t.Helper()
	s := &sim{
		t: t, seed: seed, broken: broken, store: memory.New(), list: simList{revision: 1, limit: simKeys},
		active: map[elect.Key]map[*simNode]int64{}, tokens: map[elect.Key]int64{}, touched: map[elect.Key]time.Time{},
	}
	for range simNodes {
		s.start("")
	}
	return s
}

// start adds a node, under a clock of its own rate: any two differ by a ratio of at most 1.1. An empty name is a
// new one; predecessors are what the container's last process left.
func (s *sim) start(name string, predecessors ...electing.Session) {
	n := &simNode{
		name: name, store: s.store.Client(), rng: rand.New(rand.NewPCG(s.seed, uint64(s.next)+2)),
		start: time.Now(), dead: make(chan struct{}), list: make(chan int, 1),
	}
	n.list <- 0
	if n.name == "" {
		n.name = fmt.Sprint("n", s.next)
	}
	s.next++
	for _, p := range predecessors {
		n.SessionOpening(p.ID)
	}
	n.rate = 0.955 + 0.095*n.rng.Float64()
	n.store.Fault(n.verdict)
	var db store.Store = n.store
	if s.broken {
		db = blind{db}
	}
	member := s.list.member()
	member.Instance = n.name
	n.allow(s.list.limit)
	e, err := elect.New(elect.Config{
		Store: db, LeaseDuration: lease, Clock: n, Logger: logr.Discard(), Member: member,
		OnStuck: func(keys []elect.Key) { s.stuck(n, keys) },
		Inside:  electing.Options{Guard: n, Predecessors: predecessors},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	loop, err := reconcile.NewLoop(reconcile.LoopConfig{
		Cluster: e.Cluster(), Clock: n.wall, Logger: logr.Discard(),
		Policy: reconcile.Policy{Settle: 500 * time.Millisecond, FirstQuiet: 500 * time.Millisecond},
		Run:    func(elect.Key) elect.Runnable { return elect.Go(s.run(n)) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	n.elector, n.loop = e, loop
	ctx, cancel := context.WithCancel(s.t.Context())
	n.cancel = cancel
	if err := e.Start(ctx); err != nil {
		s.t.Fatal(err)
	}
	n.done.Go(func() {
		switch err := e.Wait(); {
		case errors.Is(err, elect.ErrUnavailable): // stopped while it was cut off
			s.unended.Store(true)
		case err != nil:
			s.fail("a run of an elector failed", "%s: Run: %v", n.name, err)
		}
	})
	n.done.Go(func() {
		if err := loop.Run(context.WithoutCancel(ctx)); err != nil {
			s.fail("a balancer's loop failed", "%s: %v", n.name, err)
		}
	})
	n.done.Go(func() { s.lockNowAndThen(ctx, n) })
	list := s.list
	n.done.Go(func() { s.declare(ctx, n, list) })
	s.nodes = append(s.nodes, n)
}

// declare gives a node its list and cap, unless it has a newer one: a replica reads its files one after the other.
func (s *sim) declare(ctx context.Context, n *simNode, l simList) {
	n.frozen()
	has := <-n.list
	defer func() { n.list <- max(has, l.revision) }()
	if l.revision >= has && n.elector.Cluster().SetMember(ctx, l.member()) == nil {
		n.allow(l.limit)
		_ = n.loop.Declare(ctx, l.declared())
	}
}

// stuck is what a process does whose runs outlive the hard deadline: it exits. Only one that was frozen comes so
// far, for all other runs end soon after they are asked to.
func (s *sim) stuck(n *simNode, keys []elect.Key) {
	if !n.wasIcy(thawLimit+slowest) && !n.isGone() {
		s.fail("runs outlived the hard deadline", "%s: stuck %v", n.name, keys)
	}
	s.crash(n)
}

// crash is the end of a node's process, tasks and all.
func (s *sim) crash(n *simNode) {
	if !n.die() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, runs := range s.active {
		delete(runs, n)
	}
	s.logLocked("%s is dead", n.name)
}

// lockNowAndThen takes and leaves a few keys by Lock and Unlock.
func (s *sim) lockNowAndThen(ctx context.Context, n *simNode) {
	for ctx.Err() == nil {
		n.frozen()
		key := elect.NewKey("x", fmt.Sprint(n.random(simExtra)))
		opts := elect.LockOptions{
			Wait:    time.Duration(n.random(3000)) * time.Millisecond,
			MaxHold: time.Duration(1+n.random(8000)) * time.Millisecond,
		}
		ok, _ := n.elector.LockWith(ctx, key, opts, s.run(n))
		if ok && n.random(2) == 0 {
			_ = n.elector.Unlock(ctx, key)
		}
		time.Sleep(time.Duration(n.random(2000)) * time.Millisecond)
	}
}

// run is the work of a key: it goes on until it is informed to stop, and some moments longer.
func (s *sim) run(n *simNode) elect.RunFunc {
	return func(ctx context.Context, l *elect.Lease) error {
		n.frozen()
		s.begin(n, l)
		defer s.end(n, l.Key())
		for range n.random(2) {
			if _, err := l.Advance(ctx, elect.TaskStatus{State: "running"}); err == nil {
				s.advanced(n, l)
			}
			l.Report(elect.TaskStatus{State: "backoff"})
		}
		select {
		case <-ctx.Done():
		case <-n.dead:
			return errors.New("the process is dead")
		}
		time.Sleep(time.Duration(n.random(int(slowest/time.Millisecond))) * time.Millisecond)
		n.frozen()
		return context.Cause(ctx)
	}
}

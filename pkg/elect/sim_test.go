package elect_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/memstore"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// The simulation runs several electors, each under a balancer's loop, on one store, lets faults befall them at random,
// and asks three things: never two runs of one key at once; tokens that strictly rise; and, once the faults have ended, every
// key running again within a bound. A failure names its seed.

const (
	simNodes = 4
	simKeys  = 10
	simExtra = 3 // keys taken with Lock, beside those that the loops spread

	afterHands = 6 * lease
)

// sim is one simulated cluster.
type sim struct {
	t     *testing.T
	seed  uint64
	store *memstore.Store
	rng   *rand.Rand // of the script; not shared
	nodes []*simNode
	next  int

	mu      sync.Mutex
	active  map[elect.Key]map[string]int64 // who runs it, and under which token
	tokens  map[elect.Key]int64
	touched map[elect.Key]time.Time // by hand: two runs are not held against anybody for a while, longer where answers are lost
	starts  int
	trace   []string
}

// simNode is one replica.
type simNode struct {
	name    string
	store   *memstore.Store
	elector *elect.Elector
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu   sync.Mutex
	rng  *rand.Rand
	mode string
}

// skewed is a clock that runs at another rate than the test's.
type skewed struct {
	start time.Time
	rate  float64
}

func (c skewed) Now() protocol.Instant {
	d := time.Duration(float64(time.Since(c.start))*c.rate) + time.Hour
	return protocol.Instant{Mono: d, Boot: d}
}

func newSim(t *testing.T, seed uint64) *sim {
	t.Helper()
	s := &sim{
		t: t, seed: seed, store: memstore.New(), rng: rand.New(rand.NewPCG(seed, 1)),
		active: map[elect.Key]map[string]int64{}, tokens: map[elect.Key]int64{}, touched: map[elect.Key]time.Time{},
	}
	for range simNodes {
		s.start()
	}
	return s
}

func (s *sim) declared() balancer.Declared {
	g := balancer.DeclaredGroup{Name: "g", Hash: "1"}
	for i := range simKeys {
		g.Keys = append(g.Keys, balancer.DeclaredKey{Key: elect.NewKey("g", fmt.Sprint(i)), Weight: 1})
	}
	return balancer.Declared{Groups: []balancer.DeclaredGroup{g}}
}

// start adds a node, under a clock of its own rate: any two differ by a ratio of at most 1.1.
func (s *sim) start() {
	s.t.Helper()
	n := &simNode{name: fmt.Sprint("n", s.next), store: s.store.Client(), rng: rand.New(rand.NewPCG(s.seed, uint64(s.next)+2))}
	s.next++
	n.store.Fault(n.verdict)
	e, err := elect.New(elect.Config{
		Store: n.store, LeaseDuration: lease, Clock: skewed{time.Now(), 0.955 + 0.095*n.rng.Float64()}, Logger: logr.Discard(),
		Member: elect.Member{Instance: n.name, ListHashes: map[string]string{"g": "1"}, Caps: map[string]int{"g": simKeys}},
		// A stuck run here is a fault of the elector: all runs end soon after they are told.
		OnStuck: func(keys []elect.Key) { s.fail("%s: stuck %v", n.name, keys) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	loop, err := balancer.NewLoop(balancer.LoopConfig{
		Elector: e, Clock: time.Now, Logger: logr.Discard(),
		Policy: balancer.Policy{Settle: 500 * time.Millisecond, FirstQuiet: 500 * time.Millisecond},
		Run:    func(elect.Key) elect.RunFunc { return s.run(n) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	n.elector = e
	ctx, cancel := context.WithCancel(s.t.Context())
	n.cancel = cancel
	n.done.Go(func() {
		if err := e.Run(ctx); err != nil && !errors.Is(err, elect.ErrUnavailable) { // stopped while it was cut off
			s.fail("%s: Run: %v", n.name, err)
		}
	})
	n.done.Go(func() {
		if err := loop.Run(context.WithoutCancel(ctx)); err != nil {
			s.fail("%s: %v", n.name, err)
		}
	})
	n.done.Go(func() { s.lockNowAndThen(ctx, n) })
	if err := loop.Declare(ctx, s.declared()); err != nil {
		s.t.Fatal(err)
	}
	s.nodes = append(s.nodes, n)
}

// lockNowAndThen takes and leaves a few keys by Lock and Unlock.
func (s *sim) lockNowAndThen(ctx context.Context, n *simNode) {
	for ctx.Err() == nil {
		key := elect.NewKey("x", fmt.Sprint(n.random(simExtra)))
		opts := elect.LockOptions{Wait: time.Duration(n.random(3000)) * time.Millisecond, MaxHold: time.Duration(1+n.random(8000)) * time.Millisecond}
		ok, _ := n.elector.LockWith(ctx, key, opts, s.run(n))
		if ok && n.random(2) == 0 {
			_ = n.elector.Unlock(ctx, key)
		}
		time.Sleep(time.Duration(n.random(2000)) * time.Millisecond)
	}
}

func (n *simNode) random(below int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rng.IntN(below)
}

// verdict lets happen to a call what the node's mode says.
func (n *simNode) verdict(memstore.Call) memstore.Verdict {
	n.mu.Lock()
	defer n.mu.Unlock()
	some := func(limit time.Duration) time.Duration { return time.Duration(n.rng.Int64N(int64(limit))) }
	switch n.mode {
	case "cut":
		return memstore.Verdict{Fault: memstore.Hang}
	case "down":
		return memstore.Verdict{Fault: memstore.LoseRequest}
	case "deaf": // everything arrives, no answer does
		return memstore.Verdict{Fault: memstore.LoseAnswer}
	case "lossy":
		switch p := n.rng.IntN(100); {
		case p < 12:
			return memstore.Verdict{Fault: memstore.LoseRequest}
		case p < 24:
			return memstore.Verdict{Fault: memstore.LoseAnswer}
		case p < 30:
			return memstore.Verdict{Fault: memstore.Hang}
		case p < 45:
			return memstore.Verdict{Delay: some(lease), Late: true}
		case p < 55:
			return memstore.Verdict{AnswerDelay: some(lease / 3)}
		}
	}
	return memstore.Verdict{Delay: some(5 * time.Millisecond), AnswerDelay: some(5 * time.Millisecond)}
}

func (n *simNode) set(mode string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mode = mode
}

// run is the work of a key: it goes on until it is told to stop, and some moments longer.
func (s *sim) run(n *simNode) elect.RunFunc {
	return func(ctx context.Context, l *elect.Lease) error {
		s.begin(n, l)
		defer s.end(n, l.Key())
		for range n.random(2) {
			if _, err := l.Advance(ctx, elect.TaskStatus{State: "running"}); err == nil {
				s.advanced(n, l)
			}
			l.Report(elect.TaskStatus{State: "backoff"})
		}
		<-ctx.Done()
		time.Sleep(time.Duration(n.random(int(lease/10/time.Millisecond))) * time.Millisecond)
		return context.Cause(ctx)
	}
}

func (s *sim) begin(n *simNode, l *elect.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := l.Key()
	s.starts++
	if !l.Valid() {
		s.failLocked("%s starts %s without a valid lease", n.name, key)
	}
	if runs := s.active[key]; len(runs) > 0 && time.Since(s.touched[key]) > afterHands {
		s.failLocked("%s starts %s while %v run it", n.name, key, runs)
	}
	s.rises(n, key, l.Token())
	if s.active[key] == nil {
		s.active[key] = map[string]int64{}
	}
	s.active[key][n.name] = l.Token()
	s.logLocked("%s starts %s under %d", n.name, key, l.Token())
}

func (s *sim) advanced(n *simNode, l *elect.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rises(n, l.Key(), l.Token())
}

// rises checks a new token. No two starts ever share one. That each is larger than all before it can be asked only where no hand ended a
// live session: its last claim may start late, under the smaller token that a sink then refuses.
func (s *sim) rises(n *simNode, key elect.Key, token int64) {
	if token == s.tokens[key] || token < s.tokens[key] && time.Since(s.touched[key]) > afterHands {
		s.failLocked("%s has token %d of %s after %d", n.name, token, key, s.tokens[key])
	}
	s.tokens[key] = max(token, s.tokens[key])
}

func (s *sim) end(n *simNode, key elect.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active[key], n.name)
	s.logLocked("%s ended %s", n.name, key)
}

func (s *sim) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(format, args...)
}

func (s *sim) failLocked(format string, args ...any) {
	s.t.Errorf("seed %d: "+format, append([]any{s.seed}, args...)...)
	s.logLocked(format, args...)
}

func (s *sim) logLocked(format string, args ...any) {
	s.trace = append(s.trace, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (s *sim) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logLocked(format, args...)
}

func simulate(t *testing.T, seeds uint64, hands bool) {
	t.Helper()
	for seed := simFrom(); seed < simFrom()+seeds; seed++ {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, seed)
			s.play(hands)
			if t.Failed() {
				for _, line := range s.trace {
					t.Log(line)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

func TestSimulationOfFaults(t *testing.T) { simulate(t, simSeeds(), false) }

func TestSimulationOfFaultsAndHands(t *testing.T) { simulate(t, simSeeds(), true) }

// simSeeds is how many runs of the simulation a test makes.
func simSeeds() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("SIM_SEEDS"), 10, 64); err == nil {
		return n
	}
	if testing.Short() {
		return 3
	}
	return 12
}

// simFrom is the first seed: 0, or what SIM_FROM says.
func simFrom() uint64 {
	n, _ := strconv.ParseUint(os.Getenv("SIM_FROM"), 10, 64)
	return n
}

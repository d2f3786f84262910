package linearizability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/pkg/store/quorum"
	"github.com/shardctl/shardctl/test/suites"
)

// acceptors are servers in memory that stop answering, answer late, and lose requests and answers.
type acceptors struct {
	servers  []*memory.Store
	injected *injected

	mu     sync.Mutex
	random *rand.Rand
	away   []chan struct{} // closed when the server is away; nil: it is not
	dull   []bool          // its answers take time and get lost

	options quorum.Options
}

func newAcceptors(n int, seed uint64, faults *injected) *acceptors {
	a := &acceptors{
		random: rand.New(rand.NewPCG(seed, 7000)), injected: faults, away: make([]chan struct{}, n),
		dull: make([]bool, n),
	}
	for range n {
		a.servers = append(a.servers, memory.New())
	}
	return a
}

func (a *acceptors) database(name string) database {
	a.options = quorum.Options{Timeout: 3 * time.Second, Cluster: name}
	for i := range a.servers {
		a.options.Servers = append(a.options.Servers, quorum.Server{
			Name: fmt.Sprint("memory ", i),
			Open: func(context.Context) (store.Store, error) { return a.client(i), nil }, //nolint:contextcheck // it has none
		})
	}
	if _, err := quorum.Init(context.Background(), a.options); err != nil {
		panic(err)
	}
	return database{
		name: name, freshLists: true, countsMore: true,
		open: func(ctx context.Context) (store.Store, error) {
			return opened(quorum.Open(ctx, a.options))
		},
	}
}

func (a *acceptors) client(i int) store.Store {
	c := a.servers[i].Client()
	c.Fault(func(memory.Call) memory.Verdict { return a.verdict(i) })
	return c
}

// verdict is what happens to one call of a server.
func (a *acceptors) verdict(i int) memory.Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.away[i] != nil:
		return memory.Verdict{Fault: memory.Hang}
	case !a.dull[i]:
		return memory.Verdict{}
	}
	v := memory.Verdict{
		Delay: upTo(a.random, 5*time.Millisecond), AnswerDelay: upTo(a.random, 5*time.Millisecond),
		Late: a.random.IntN(2) == 0,
	}
	switch a.random.IntN(10) {
	case 0:
		v.Fault = memory.LoseRequest
	case 1:
		v.Fault = memory.LoseAnswer
	}
	return v
}

func (a *acceptors) set(i int, away, dull bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dull[i] = dull
	a.away[i] = nil
	if away {
		a.away[i] = make(chan struct{})
	}
}

// run has two of the servers away nearly always, which ones changes; now and then a majority is, or answers badly.
func (a *acceptors) run(ctx context.Context) {
	n := len(a.servers)
	minority := (n - 1) / 2
	for pauseBetween(ctx, a.random, 50, 1500) {
		order := a.random.Perm(n)
		for _, i := range order {
			a.set(i, false, false)
		}
		down := minority
		switch a.random.IntN(7) {
		case 0:
			a.injected.add("all servers answer badly")
			for i := range n {
				a.set(i, false, true)
			}
			continue
		case 1:
			a.injected.add("a majority is away")
			down++
		case 2:
			a.injected.add("a disk is lost, and two re-admit the server")
			a.lose(ctx, order[0])
			continue
		default:
			a.injected.add("a minority is away")
		}
		for j, i := range order {
			a.set(i, j < down, false)
		}
	}
	for i := range n {
		a.set(i, false, false)
	}
}

// lose empties a server, and has it re-admitted by two at once while clients go on.
func (a *acceptors) lose(ctx context.Context, i int) {
	a.set(i, true, false) // what is under way ends before
	a.empty(ctx, i)
	a.set(i, false, false)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for ctx.Err() == nil {
				err := a.readmit(ctx, i)
				if err == nil || errors.Is(err, store.ErrInvalid) && strings.Contains(err.Error(), "did not lose") {
					return
				}
				if errors.Is(err, store.ErrInvalid) { // a write that was under way has come after all
					a.empty(ctx, i)
				}
			}
		})
	}
	both.Wait()
}

func (a *acceptors) readmit(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := quorum.Open(ctx, a.options)
	if err != nil {
		return err
	}
	return errors.Join(s.Readmit(ctx, i, nil), s.Close(context.WithoutCancel(ctx)))
}

// empty removes all that a server holds.
func (a *acceptors) empty(ctx context.Context, i int) {
	ctx = context.WithoutCancel(ctx)
	s := a.servers[i]
	for _, kind := range driver.Kinds() {
		reply, err := s.List(ctx, kind, driver.Query{})
		if err != nil {
			panic(err)
		}
		for _, d := range reply.Docs {
			if _, err := s.Apply(ctx, driver.Change{Op: driver.Delete, IfRev: d.Rev, Doc: d}); err != nil {
				panic(err)
			}
		}
	}
}

// Electors and clients live in time that costs nothing: two of five servers are away nearly always.
func TestQuorum(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	all, turns, onTheWay, faults := &tally{}, &turnTally{}, &injected{}, &injected{}
	documents := &tally{}
	synctest.Test(t, func(t *testing.T) {
		a := newAcceptors(5, seed, faults)
		db := a.database("quorum")
		db.mustOpen(t)
		whileRunning(t, a.run)
		often := usual
		often.delay = 0.9
		d := newDocumentRun(t, db, seed, often)
		d.tally, d.faults = documents, onTheWay
		var found []finding
		rounds := 1
		if suites.Chosen(t, suites.Models) {
			rounds = *seconds
		}
		for n := 0; n < rounds && len(found) == 0; n++ {
			found = d.judge(d.play(t.Context(), n))
		}
		complain(t, seed, found)
	})
	for n := range max(1, *seconds/10) {
		var found []finding
		synctest.Test(t, func(t *testing.T) {
			a := newAcceptors(5, seed+uint64(n), faults)
			db := a.database("quorum")
			db.virtual = true
			db.mustOpen(t) // the set-up needs all servers
			whileRunning(t, a.run)
			r := newLockRun(db, seed+uint64(n), rare)
			r.tally, r.turns, r.faults = all, turns, onTheWay
			if !suites.Chosen(t, suites.Models) {
				r.length = time.Second // each call is some of five servers
			}
			found = r.round(t, n)
		})
		complain(t, seed+uint64(n), found)
		if t.Failed() {
			break
		}
	}
	t.Logf("locks: %v; mutexes: %v; documents: %v", all, turns, documents)
	t.Logf("faults on the way: %v; of servers: %v", onTheWay, faults)
	enough(t, *seconds, documents.histories.Load()+all.histories.Load(), faults, onTheWay)
}

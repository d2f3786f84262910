package linearizability

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// lockRun is electors that lock keys and mutexes against each other, round after round.
type lockRun struct {
	db     database
	seed   uint64
	odds   odds
	faults *injected
	tally  *tally
	random *rand.Rand
	made   int           // electors so far
	length time.Duration // of a round
	turns  *turnTally
	queues *queues
}

const (
	electors = 4 // at a time
	workers  = 8 // of each
	keysEach = 250
	keysHot  = 24          // in use at a time, so that the electors meet
	lastWait = time.Minute // for a key to be free in the end, whatever had happened

	lastElectors = 5 // one has to exit where the store was away for a lease, and its run was not scheduled to end
)

func newLockRun(db database, seed uint64, o odds) *lockRun {
	return &lockRun{
		db: db, seed: seed, odds: o, faults: &injected{}, tally: &tally{}, random: rand.New(rand.NewPCG(seed, 2000)),
		length: 6 * time.Second, turns: &turnTally{}, queues: newQueues(),
	}
}

// run makes rounds until it is over or a history is wrong.
func (r *lockRun) run(t *testing.T, over func() bool) []finding {
	t.Helper()
	var found []finding
	for n := 0; !over() && len(found) == 0 && !t.Failed(); n++ {
		found = r.round(t, n)
	}
	return found
}

// round is one round, played and judged.
func (r *lockRun) round(t *testing.T, n int) []finding {
	t.Helper()
	keys, mutexes := r.play(t, n)
	return append(r.judge(keys), r.judgeMutexes(t.Context(), t, mutexes)...)
}

// start starts one more elector.
func (r *lockRun) start(ctx context.Context, t *testing.T) *elector {
	t.Helper()
	store, err := r.db.openPatiently(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.made++
	u := newUnreliable(noting{store, r.queues}, rand.New(rand.NewPCG(r.seed, uint64(3000+r.made))), r.odds, r.faults)
	x, err := newElector(r.made, u, r.db.clock())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// play is one round: electors that come and go use up some keys, and in the end one that is left locks each of them.
func (r *lockRun) play(t *testing.T, n int) ([]*lockKey, *mutexes) {
	t.Helper()
	m := newMutexes(n, r.queues)
	keys := make([]*lockKey, keysEach)
	for i := range keys {
		keys[i] = &lockKey{key: fmt.Sprintf("round%d/%03d", n, i)}
	}
	begin := time.Now()
	life := t.Context()
	ctx, cancel := context.WithDeadline(life, begin.Add(r.length))
	defer cancel()
	var working sync.WaitGroup
	launch := func() *elector {
		x := r.start(life, t)
		for i := range workers {
			random := rand.New(rand.NewPCG(r.seed, uint64(x.n*100+i)))
			w := &worker{x: x, random: random, keys: func() *lockKey {
				first := int(time.Since(begin) * (keysEach - keysHot) / r.length)
				return keys[min(first, keysEach-keysHot)+random.IntN(keysHot)]
			}}
			working.Go(func() { w.run(ctx) })
		}
		r.launchLockers(ctx, x, m, begin, &working)
		return x
	}
	var gone, present []*elector
	for range electors {
		present = append(present, launch())
	}
	for r.pause(ctx) {
		i := r.random.IntN(electors)
		if x := present[i]; r.disturb(ctx, x) {
			gone = append(gone, x)
			present[i] = launch()
		}
	}
	for _, x := range present {
		x.heal()
		if r.random.IntN(3) == 0 {
			r.faults.add("killed")
			x.kill()
		} else {
			x.stop()
		}
	}
	r.last(life, t, keys, m)
	working.Wait()
	for _, x := range append(gone, present...) {
		x.wait(t)
	}
	return keys, m
}

func (r *lockRun) pause(ctx context.Context) bool {
	select {
	case <-time.After(time.Duration(200+r.random.IntN(900)) * time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}

// disturb does something to an elector, and says whether another is to take its place.
func (r *lockRun) disturb(ctx context.Context, x *elector) bool {
	switch r.random.IntN(4) {
	case 0:
		r.faults.add("killed")
		x.kill()
		return true
	case 1:
		r.faults.add("closed")
		x.stop()
		return true
	}
	r.faults.add("cut off")
	x.store.sever()
	for range 1 + r.random.IntN(2) {
		r.pause(ctx)
	}
	x.heal()
	return false
}

// last locks every key and mutex once more: none is left locked without an owner that knows it.
func (r *lockRun) last(ctx context.Context, t *testing.T, keys []*lockKey, m *mutexes) {
	t.Helper()
	rest := slices.DeleteFunc(slices.Clone(keys), func(k *lockKey) bool { return !k.used() })
	mutexes := slices.DeleteFunc(slices.Clone(m.all), func(c *contended) bool { return !c.used() })
	for range lastElectors {
		rest, mutexes = r.lockAll(ctx, t, rest, mutexes)
		if len(rest)+len(mutexes) == 0 {
			return
		}
		r.faults.add("the last one had to exit")
	}
	t.Errorf("seed %d: %s: %d electors had to exit before they had locked all keys", r.seed, r.db.name, lastElectors)
}

// lockAll starts an elector that locks keys and mutexes. It returns those that it had not locked when it had to exit.
func (r *lockRun) lockAll(
	ctx context.Context, t *testing.T, keys []*lockKey, mutexes []*contended,
) (rest []*lockKey, left []*contended) {
	t.Helper()
	x := r.start(ctx, t)
	x.store.quiet.Store(true)
	var all sync.WaitGroup
	var mu sync.Mutex
	next := make(chan *lockKey)
	all.Go(func() { left = r.lockMutexes(ctx, t, x, mutexes) })
	for range workers {
		all.Go(func() {
			for k := range next {
				if try := x.lockOnce(ctx, k); !try.ok && x.killed.Load() != 0 {
					mu.Lock()
					rest = append(rest, k)
					mu.Unlock()
				} else if !try.ok {
					t.Errorf("seed %d: %s: %s cannot be locked in the end: %v", r.seed, r.db.name, k.key, try.err)
				}
			}
		})
	}
	for _, k := range keys {
		next <- k
	}
	close(next)
	all.Wait()
	x.stop()
	x.wait(t) //nolint:contextcheck // closing goes on when the test's context has ended
	return rest, left
}

// lockOnce waits for a key for as long as may be, and has it run for a moment.
func (x *elector) lockOnce(ctx context.Context, k *lockKey) *try {
	w := &work{x: x, k: k, try: &try{who: x.n}, over: make(chan struct{})}
	w.values = valueUser{x: x, of: &k.value}
	w.try.call = now()
	ok, err := x.e.LockWith(ctx, elect.Key(k.key), elect.LockOptions{Wait: lastWait}, w.run)
	end, lives := x.alive(now())
	if !lives {
		ok, err = false, errCut // the caller was not informed
	}
	w.try.ok, w.try.err, w.try.end = ok, err, end
	k.mu.Lock()
	k.try = append(k.try, w.try)
	k.mu.Unlock()
	return w.try
}

func (k *lockKey) used() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.try) > 0 || len(k.runs) > 0
}

// judge decides on all histories of a round.
func (r *lockRun) judge(keys []*lockKey) []finding {
	var found []finding
	for _, k := range keys {
		if len(k.try) == 0 {
			continue
		}
		r.tally.histories.Add(1)
		r.tally.operations.Add(int64(len(k.try)))
		for _, t := range k.try {
			if t.err != nil {
				r.tally.unknown.Add(1)
			}
		}
		for _, run := range k.runs {
			r.tally.operations.Add(int64(len(run.uses) + 1))
			r.tally.runs.Add(1)
			if run.lost {
				r.tally.lost.Add(1)
			}
		}
		r.tally.values.Add(int64(len(k.value.calls)))
		found = append(found, k.judge(r.db.name+": lock "+k.key)...)
		if !r.db.loses { // a value that was acknowledged may be lost with the writes behind it, as any document
			found = append(found, k.value.judge(r.db.name+": value of "+k.key)...)
		}
	}
	return found
}

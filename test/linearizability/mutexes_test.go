package linearizability

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	electrecord "github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

const (
	lockers     = 4 // goroutines of each elector that use mutexes, beside those that lock keys
	mutexesEach = 60
	mutexesHot  = 5 // in use at a time, so that there are queues

	keptAtLeast = 30 * time.Millisecond  // from each claim on, of a mutex that is kept
	keptAfter   = 200 * time.Millisecond // at most, by a holder that detaches it
)

// mutexes are those of a round, and what is known of their documents.
type mutexes struct {
	all    []*contended
	queues *queues
}

func newMutexes(round int, q *queues) *mutexes {
	m := &mutexes{queues: q}
	for i := range mutexesEach {
		m.all = append(m.all, &contended{name: fmt.Sprintf("round%d/%03d", round, i), kind: mutexKind(i) % mutexKinds})
	}
	return m
}

// turnTally counts what was judged of mutexes.
type turnTally struct{ turns, queued, passed, histories atomic.Int64 }

func (c *turnTally) String() string {
	return fmt.Sprintf(
		"%d histories, %d turns, %d of them after a wait in the queue, %d calls that got none",
		c.histories.Load(), c.turns.Load(), c.queued.Load(), c.passed.Load(),
	)
}

// count counts the turns of a history, and returns how many there were.
func (c *turnTally) count(of *contended) (told int64) {
	c.histories.Add(1)
	for _, t := range of.turns {
		if t.told {
			told++
		}
	}
	c.turns.Add(told)
	c.passed.Add(int64(len(of.turns)) - told)
	return told
}

// locker uses mutexes with one elector, one after the other.
type locker struct {
	x      *elector
	locks  *mutex.Locks
	random *rand.Rand
	next   func() *contended
}

func (l *locker) run(ctx context.Context) {
	for ctx.Err() == nil && l.x.life.Err() == nil {
		l.turn(ctx, l.next())
	}
}

// turn asks for a mutex once, and sees through what comes of it.
func (l *locker) turn(ctx context.Context, c *contended) {
	t := &turn{who: l.x.n, shared: c.kind == readersWriter && l.random.IntN(3) > 0, try: l.random.IntN(4) == 0}
	hold := upTo(l.random, 20*time.Millisecond)
	if l.random.IntN(60) == 0 {
		hold = upTo(l.random, 2*lease) // long enough for something to happen
	}
	call, cancel := ctx, func() {}
	if l.random.IntN(3) == 0 {
		call, cancel = context.WithTimeout(ctx, upTo(l.random, 300*time.Millisecond))
	}
	defer cancel()
	held := l.ask(call, c, t)
	defer c.note(t)
	if held == nil {
		return
	}
	for over := time.Now().Add(hold); l.works(held, t) && time.Now().Before(over); {
		time.Sleep(min(hold/4+time.Millisecond, 50*time.Millisecond))
	}
	l.works(held, t)
	limited, end := context.WithTimeout(ctx, 3*lease)
	defer end()
	if err := l.leave(limited, c, held); err == nil {
		if at, lives := l.x.alive(now()); lives {
			t.freed = at
		}
	}
}

// leave gives it back. Every other one that may be kept is, for some time.
func (l *locker) leave(ctx context.Context, c *contended, held *mutex.Held) error {
	if c.kind == lasting && l.random.IntN(2) == 0 {
		until := time.Now().Add(time.Millisecond + upTo(l.random, keptAfter))
		if err := held.Detach(ctx, until); err == nil || time.Now().Before(until) {
			return err
		} // else that time may have passed before: it is still held
	}
	return held.Unlock(ctx)
}

// ask makes the call. What a killed process was not informed of, it does not have.
func (l *locker) ask(ctx context.Context, c *contended, t *turn) *mutex.Held {
	lock, try := calls(l.locks, c, t.shared)
	if t.try {
		lock = try
	}
	t.call = now()
	held, err := lock(ctx)
	end, lives := l.x.alive(now())
	t.end = end
	switch {
	case !lives:
		t.err = errCut
		return nil
	case err != nil:
		t.err = err
		return nil
	}
	t.told, t.token = true, held.Token()
	return held
}

// calls are those by which a mutex is locked, waiting or not.
func calls(l *mutex.Locks, c *contended, shared bool) (lock, try func(context.Context) (*mutex.Held, error)) {
	switch c.kind {
	case readersWriter:
		if rw := l.RWMutex(c.name); shared {
			return rw.RLock, rw.TryRLock
		}
		return l.RWMutex(c.name).Lock, l.RWMutex(c.name).TryLock
	case semaphore:
		return l.Semaphore(c.name, c.kind.limit()).Lock, l.Semaphore(c.name, c.kind.limit()).TryLock
	case unfair:
		return l.Mutex(c.name).Unfair().Lock, l.Mutex(c.name).Unfair().TryLock
	case lasting:
		return l.Mutex(c.name).HoldAtLeast(keptAtLeast).Lock, l.Mutex(c.name).HoldAtLeast(keptAtLeast).TryLock
	case fair, mutexKinds:
	}
	return l.Mutex(c.name).Lock, l.Mutex(c.name).TryLock
}

// works notes that the context goes on, and says whether it does.
func (l *locker) works(held *mutex.Held, t *turn) bool {
	u := span{call: now()}
	valid := held.Context().Err() == nil
	u.end = now()
	_, lives := l.x.alive(u.end)
	if valid && lives {
		t.uses = append(t.uses, u)
	}
	return valid && lives
}

// launchLockers has an elector's goroutines use mutexes of the round, a few at a time.
func (r *lockRun) launchLockers(ctx context.Context, x *elector, m *mutexes, begin time.Time, working *sync.WaitGroup) {
	locks := mutex.New(x.e)
	for i := range lockers {
		random := rand.New(rand.NewPCG(r.seed, uint64(x.n*100+50+i)))
		l := &locker{x: x, locks: locks, random: random, next: func() *contended {
			first := int(time.Since(begin) * (mutexesEach - mutexesHot) / r.length)
			return m.all[min(first, mutexesEach-mutexesHot)+random.IntN(mutexesHot)]
		}}
		working.Go(func() { l.run(ctx) })
	}
}

// lockMutexes has an elector lock each mutex that was used, whatever had happened to it. It returns those that it had
// not locked when it had to exit.
func (r *lockRun) lockMutexes(ctx context.Context, t *testing.T, x *elector, all []*contended) (rest []*contended) {
	t.Helper()
	locks := mutex.New(x.e)
	for _, c := range all {
		one := &turn{who: x.n}
		limited, cancel := context.WithTimeout(ctx, lastWait)
		held, err := (&locker{x: x, locks: locks}).last(limited, c, one)
		cancel()
		switch {
		case held != nil:
			c.note(one)
		case x.killed.Load() != 0:
			rest = append(rest, c)
		default:
			t.Errorf("seed %d: %s: mutex %s cannot be locked in the end: %v", r.seed, r.db.name, c.name, err)
		}
	}
	return rest
}

// last locks it once and gives it back. A writer gets it only when no one else has it.
func (l *locker) last(ctx context.Context, c *contended, t *turn) (*mutex.Held, error) {
	held := l.ask(ctx, c, t)
	if held == nil {
		return nil, t.err
	}
	l.works(held, t)
	if held.Unlock(ctx) == nil {
		if at, lives := l.x.alive(now()); lives {
			t.freed = at
		}
	}
	return held, nil
}

// judgeMutexes decides on the histories of mutexes, and on the order of their tickets.
func (r *lockRun) judgeMutexes(ctx context.Context, t *testing.T, m *mutexes) []finding {
	t.Helper()
	db, err := r.db.openPatiently(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, db) //nolint:contextcheck // closing goes on when the test's context has ended
	var found []finding
	for _, c := range m.all {
		if !c.used() {
			continue
		}
		told := r.turns.count(c)
		name := fmt.Sprintf("%s: %v %s", r.db.name, c.kind, c.name)
		found = append(found, c.judge(name)...)
		if r.db.loses { // of writes that are lost it cannot be said what came before
			continue
		}
		newest, err := readMutex(ctx, db, c.name)
		if err != nil {
			t.Errorf("seed %d: %s: its document cannot be read: %v", r.seed, name, err)
			continue
		}
		var queued int
		var bad []string
		if newest.ID == "" && told > 0 {
			bad = []string{fmt.Sprintf("%d turns, and no document", told)}
		} else {
			queued, bad = judgeQueue(c.kind, m.queues.chain(newest), c.asked())
		}
		r.turns.queued.Add(int64(queued))
		for _, text := range bad {
			found = append(found, finding{text: name + ": " + text + "\n" + timeline(c.lines())})
		}
	}
	return found
}

// readMutex reads the document of a mutex, patiently: the store's faults go on. The zero Doc is an absent one.
func readMutex(ctx context.Context, db store.Store, name string) (driver.Doc, error) {
	ctx, cancel := context.WithTimeout(ctx, lastWait)
	defer cancel()
	for {
		reply, err := db.Read(ctx, driver.KindMutex, electrecord.MutexID(name))
		switch {
		case err == nil && len(reply.Docs) == 1:
			return reply.Docs[0], nil
		case err == nil:
			return driver.Doc{}, nil
		case ctx.Err() != nil:
			return driver.Doc{}, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

package simulation

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Config is one simulated cluster and its faults.
type Config struct {
	Seed     uint64
	Replicas int
	Keys     int
	Groups   int
	Faults   int
	Length   time.Duration // of the whole, in virtual time
	Quiet    time.Duration // of this the end, without faults
	Lease    time.Duration
}

// Figures is what a run did.
type Figures struct {
	Faults   map[string]int
	Events   uint64
	Virtual  time.Duration
	Real     time.Duration
	Starts   int
	Turns    int // of mutexes
	Claims   int // of keys, acknowledged or not
	Plans    int // computed
	Asked    int // plans asked for: all but those computed were shared
	Sessions int
	Kills    int           // sessions marked dead by others
	Thawed   int           // old runs still there when a frozen replica thawed
	Rest     time.Duration // from the last fault until nothing moved any more
	Heap     uint64
	History  uint64 // a hash of everything that happened, in order
	Wrong    []string
}

// world is one run.
type world struct {
	cfg      Config
	p        protocol.Params
	rng      *rand.Rand
	now      time.Duration
	queue    queue
	store    documents
	net      network
	snap     snapshot
	lists    []*list
	replicas []*replica
	mutexes  map[string]*mutex // by id
	judge    judge
	buffers  [][]record.Session // for lists of sessions under way
	figures  Figures
	changed  time.Duration // when a lock was last written
	lastTime time.Duration // of the last fault
}

// Run plays one cluster from its seed.
func Run(cfg Config) (*Figures, error) {
	p, err := protocol.NewParams(cfg.Lease, 0)
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	return newWorld(cfg, p).run(), nil
}

func (w *world) run() *Figures {
	begin := time.Now()
	w.script()
	w.play(w.cfg.Length)
	w.judge.atTheEnd()
	f := &w.figures
	f.Real, f.Virtual, f.Events = time.Since(begin), w.now, w.queue.done
	f.Sessions = len(w.store.sessions)
	f.Rest = max(0, w.changed-w.lastTime)
	return f
}

func newWorld(cfg Config, p protocol.Params) *world {
	w := &world{cfg: cfg, p: p, rng: rand.New(rand.NewPCG(cfg.Seed, 0)), figures: Figures{Faults: map[string]int{}}}
	w.judge.begin(w)
	w.snap.begin(w)
	// A fifth above the mean: many may die before keys are unassigned.
	most := (cfg.Keys/cfg.Groups/cfg.Replicas+1)*12/10 + 2
	w.lists = []*list{firstList(cfg)}
	w.snap.count()
	w.store = newDocuments(w.lists[0].total)
	w.judge.active = make([]run, w.lists[0].total)
	w.judge.tokens = make([]int64, w.lists[0].total)
	w.snap.locks = make([]*record.Lock, w.lists[0].total)
	w.snap.owners = slices.Repeat([]int32{noSession}, w.lists[0].total)
	for i := range cfg.Replicas {
		r := &replica{w: w, at: i, name: fmt.Sprintf("replica-%04d", i), caps: caps{now: most}}
		// Any two rates differ by a ratio of at most 1.1; the readings of two clocks say nothing about each other.
		r.rate, r.base = 0.955+0.0954*w.rng.Float64(), time.Duration(w.rng.Int64N(int64(1000*time.Hour)))
		w.replicas = append(w.replicas, r)
		w.after(time.Duration(w.rng.Int64N(int64(5*time.Second))), r.boot)
	}
	w.mutexes = newMutexes(w.replicas)
	return w
}

// after makes something happen in the world, whatever becomes of any process.
func (w *world) after(d time.Duration, do func()) { w.queue.push(event{at: w.now + d, do: do}) }

// play lets time pass.
func (w *world) play(until time.Duration) {
	sample := time.Duration(0)
	for len(w.queue.heap) > 0 && w.queue.heap[0].at <= until && len(w.figures.Wrong) == 0 {
		e := w.queue.pop()
		w.now = e.at
		w.queue.done++
		if r := e.of; r != nil {
			switch {
			case r.life != e.life || !r.up:
				continue
			case r.frozen:
				r.backlog = append(r.backlog, e)
				continue
			}
		}
		e.do()
		if w.now >= sample {
			sample = w.now + 2*time.Minute
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			w.figures.Heap = max(w.figures.Heap, m.HeapInuse)
		}
	}
	w.now = until
}

// clock is the store's clock in ms.
func (w *world) clock() int64 { return 1_700_000_000_000 + w.now.Milliseconds() }

// some is a random duration below limit.
func (w *world) some(limit time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(limit) + 1))
}

// note adds to the history.
func (w *world) note(what uint64, a, b int32, c int64) {
	h := w.figures.History
	for _, v := range [...]uint64{what, uint64(w.now), uint64(uint32(a))<<32 | uint64(uint32(b)), uint64(c)} {
		h = (h ^ v) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	w.figures.History = h
}

// wrong ends the run with what must not be.
func (w *world) wrong(format string, args ...any) {
	w.figures.Wrong = append(w.figures.Wrong, fmt.Sprintf("at %v: ", w.now)+fmt.Sprintf(format, args...))
}

// put changes a document that is no lock. When a session's state or member has changed, all replicas are notified
// some time later.
func (w *world) put(c *driver.Change) driver.Outcome {
	before := len(w.store.states)
	out := w.store.put(c)
	if len(w.store.states) > before {
		w.snap.touch()
	}
	return out
}

// killed notes a session that another has marked dead.
func (w *world) killed(name string, by int32) {
	w.figures.Kills++
	w.note(noteKill, w.store.number[name], by, 0)
}

// landed is a change of a lock at the store. All replicas are notified some time later, and the one it is handed over
// to at once.
func (w *world) landed(by, key int32) {
	lock := w.store.locks[key]
	w.changed = w.now
	w.judge.landed(by, key, lock)
	w.snap.touch()
	if lock.Session != "" || lock.Next == "" {
		return
	}
	r := w.store.sessions[w.store.named(lock.Next)].replica
	if r.link.loses(w) || !r.up {
		return
	}
	w.of(r, w.now+w.latency(), func() {
		r.node.Notified(engine.Notification{Kind: driver.KindLock, Lock: lock, Arrived: r.Now()})
		r.node.Settle()
		r.tick()
	})
}

// buffer is memory for a list of sessions.
func (w *world) buffer() []record.Session {
	if n := len(w.buffers); n > 0 {
		b := w.buffers[n-1]
		w.buffers = w.buffers[:n-1]
		return b
	}
	return nil
}

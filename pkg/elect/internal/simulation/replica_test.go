package simulation

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
)

// replica is one place where processes run, one after the other: its clock, its network and its settings outlive them.
type replica struct {
	w    *world
	at   int
	name string
	rate float64
	base time.Duration
	link link

	up      bool
	life    int // of the process: events of one that has died do not happen
	frozen  bool
	thawed  time.Duration
	backlog []event // what happened to a frozen process, in order

	caps    caps
	list    *list
	mutexes []*mutex

	process
}

// caps is how many keys of each group a replica may own.
type caps struct {
	now  int
	was  int // until till, keys above now may be held still
	till time.Duration
}

// process is what a restart loses.
type process struct {
	node    *engine.Engine
	id      int32 // the session's number
	latest  int64 // the largest time that a reply has carried, ms
	acked   protocol.Instant
	cache   *shared
	watch   *watch
	runs    *runs
	callers *callers
	decider *decider
	wake    time.Duration
}

// boot starts a process, unless one runs.
func (r *replica) boot() {
	if r.up {
		return
	}
	r.up, r.frozen, r.backlog = true, false, nil
	r.life++
	r.list = r.w.lists[len(r.w.lists)-1]
	r.process = process{
		cache: newShared(r.w, r.Now()), watch: &watch{r: r}, runs: newRuns(r), decider: newDecider(r),
		callers: newCallers(r),
	}
	r.node = engine.New(engine.Config{
		Params: r.w.p, Member: r.member(), NewID: r.newSession, Log: logr.Discard(),
		Clock: r, Store: requests{r}, Cache: r.cache, Observe: r.observe, Calls: r.callers,
		OnStuck: r.runs.stuck, Reserved: r.runs.reserved, Wake: func(...string) {},
	})
	r.node.Settle()
	r.watch.begin()
	r.callers.begin()
	r.tick()
}

// newSession is the name of a fresh session.
func (r *replica) newSession() string {
	order := r.w.rng.Uint64()
	name := fmt.Sprintf("%016x", order)
	r.id = int32(len(r.w.store.sessions))
	r.w.store.open(name, order, r)
	return name
}

// member is what the process says of itself.
func (r *replica) member() record.Member {
	m := record.Member{
		Instance: r.name, Caps: map[string]int{},
		ListRevision: int64(r.list.revision), ListHashes: map[string]string{"all": "same"},
	}
	for _, group := range r.list.groups {
		m.Caps[group] = r.caps.now
	}
	return m
}

// die ends the process and everything of it at once.
func (r *replica) die() {
	if !r.up {
		return
	}
	r.runs.buried()
	r.w.judge.buried(r)
	r.up, r.frozen, r.backlog = false, false, nil
	r.life++
}

// restart kills the process and starts another after a while.
func (r *replica) restart(in time.Duration) {
	r.die()
	r.w.after(in, r.boot)
}

func (r *replica) freeze() {
	if r.up {
		r.frozen = true
	}
}

// thaw lets a frozen process go on: what it looks at first is the time.
func (r *replica) thaw() {
	if !r.up || !r.frozen {
		return
	}
	r.frozen, r.thawed = false, r.w.now
	life, backlog := r.life, r.backlog
	r.backlog = nil
	r.tick()
	for _, e := range backlog {
		if r.up && r.life == life {
			e.do()
		}
	}
	r.w.after(thawLimit, func() { r.w.judge.nothingOld(r, life) })
}

// thawLimit is how long old runs may live once a frozen replica wakes.
const thawLimit = 250 * time.Millisecond

// tick lets time pass for everything of the process.
func (r *replica) tick() {
	if !r.up || r.frozen || r.runs.deadlines(r.Now()) {
		return
	}
	r.decider.notice(r.node.Changes())
	r.decider.decide(r.Now())
	r.node.Tick()
	if ended, err := r.node.Over(); ended || err != nil {
		r.w.note(noteOver, r.id, 0, 0)
		r.die()
		return
	}
	r.sleep(r.Now())
}

// sleep asks to be woken.
func (r *replica) sleep(now protocol.Instant) {
	at := r.w.now + r.real(min(r.node.Sleep(), r.decider.wait(now)))
	if r.wake > r.w.now && r.wake <= at {
		return
	}
	r.wake = at
	r.w.of(r, at, func() {
		if r.wake == at {
			r.tick()
		}
	})
}

// declare gives the process another cap or list.
func (r *replica) declare(limit int, l *list) {
	if c := &r.caps; limit < c.now {
		c.was, c.till = max(c.now, c.was), r.w.now+6*r.w.p.T
	}
	r.caps.now = limit
	if !r.up {
		return
	}
	changed := r.list != l
	r.list, r.decider.dirty = l, true
	r.node.SetMember(r.member())
	if changed {
		r.runs.releaseRemoved()
	}
	r.node.Settle()
	r.tick()
}

// limit is the most keys of a group that the replica may own now.
func (r *replica) limit() int {
	if r.w.now < r.caps.till {
		return max(r.caps.now, r.caps.was)
	}
	return r.caps.now
}

// claim begins to take a key, if it may.
func (r *replica) claim(key record.Key) {
	lock := record.Lock{Key: key}
	if known := r.cache.Lock(key); known != nil {
		lock = *known
	}
	if r.node.Self.Leaving() {
		return
	}
	h := &holding{rs: r.runs, key: number(key), hold: reconcile.Starting}
	if r.node.Claim(engine.Claim{Lock: lock, Adopt: true, Work: h}) == engine.ClaimBegun {
		r.runs.expect(h)
	}
}

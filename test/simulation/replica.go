package simulation

import (
	"math"
	"time"

	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// replica is one place where processes run, one after the other: its clock, its network and its settings outlive them.
type replica struct {
	w    *world
	at   int
	name string
	rate float64
	base time.Duration

	up      bool
	life    int // of the process: events of one that has died do not happen
	frozen  bool
	thawed  time.Duration
	backlog []event // what happened to a frozen process, in order
	link    link

	cap     int
	capWas  int // until capTill, keys above cap may be held still
	capTill time.Duration
	list    *list

	process
}

// process is what a restart loses.
type process struct {
	session int32
	m       protocol.Session
	seq     int64
	stamp   stamp // of the session's write under way
	repeat  protocol.SessionWrite
	valid   bool
	closing bool
	told    int // counts what it says of itself
	drain   bool
	drainAt protocol.Instant
	wave    balancer.Wave

	peers     []peer
	slot      []int32 // by session: its index in peers plus one; 0: not known; gone: dead
	round     uint32
	looking   bool
	lastLook  protocol.Instant
	lastAll   protocol.Instant
	lastSeen  protocol.Instant // arrival of the last reply to a look
	lastBeat  protocol.Instant
	oldest    protocol.Instant // no peer was first seen as it is before
	attention bool             // some peer has a kill or a read to repeat
	outageEnd protocol.Instant
	outage    bool // there was one

	members uint64 // a hash of who is alive, as seen from here
	since   protocol.Instant
	began   protocol.Instant

	keys    map[int32]*holding
	held    []*holding
	owned   []int // by group
	queue   []*holding
	flying  int
	running int
	retry   bool // some key waits for a repeat

	version   int   // of the snapshot read
	ownSeq    int64 // own writes up to here have landed
	states    int   // changes of sessions read
	wantRead  bool
	missed    bool // a hint did not come: look by oneself
	reading   bool
	lastRead  protocol.Instant
	dirty     bool
	decided   protocol.Instant
	again     protocol.Instant // when to decide although nothing has changed; zero: not
	lastCount protocol.Instant
	counting  bool
	miscount  int

	wake time.Duration
}

// boot starts a process, unless one runs.
func (r *replica) boot() {
	if r.up {
		return
	}
	r.up, r.frozen, r.backlog = true, false, nil
	r.life++
	r.list = r.w.lists[len(r.w.lists)-1]
	now := r.instant()
	r.process = process{keys: map[int32]*holding{}, owned: make([]int, len(r.list.groups)), states: len(r.w.store.states), wantRead: true}
	r.lastSeen, r.lastBeat, r.lastCount, r.oldest, r.began, r.since = now, now, now, now, now, now
	r.newSession()
	r.tick()
}

// die ends the process and everything of it at once.
func (r *replica) die() {
	if !r.up {
		return
	}
	for _, h := range r.held {
		if h.runs {
			r.w.judge.end(r, h.key, h.token)
		}
	}
	r.w.judge.buried(r)
	r.up, r.frozen, r.backlog = false, false, nil
	r.life++
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
	if !r.up || r.frozen {
		return
	}
	now := r.instant()
	r.stepSession(protocol.SessionEvent{Kind: protocol.SessionTick}, now)
	if r.m.TasksOff(r.running, len(r.held)) {
		r.stepSession(protocol.SessionEvent{Kind: protocol.SessionTasksOff}, now)
	}
	if !r.up {
		return
	}
	r.tickPeers(now)
	r.tickKeys(now)
	r.tickSnapshot(now)
	r.count(now)
	r.decide(now)
	r.flush()
	r.sleep(now)
}

// sleep asks to be woken: no later than in T/50.
func (r *replica) sleep(now protocol.Instant) {
	wait := r.w.p.Wake
	sooner := func(since protocol.Instant, d time.Duration) { wait = min(wait, d-now.HolderElapsed(since)) }
	if r.m.Phase == protocol.Open && !r.m.Write.Sent && !r.m.Reading && now.HolderElapsed(r.m.NotTill) >= 0 {
		sooner(r.m.Acked, r.w.p.Heartbeat)
	}
	if !r.looking {
		sooner(r.lastLook, r.w.p.Observe)
	}
	if !r.m.StoreUnreachable(r.w.p, r.lastSeen, r.lastBeat, now) {
		sooner(r.oldest, r.w.p.T)
	}
	if r.again != (protocol.Instant{}) {
		sooner(r.again, 0)
	}
	at := r.w.now + r.real(max(wait, time.Millisecond))
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

const gone = math.MinInt32

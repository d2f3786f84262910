package simulation

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
)

// runs are the keys of a process that are not free, and their tasks. It also does what a guard does: it ends tasks at
// their deadlines.
type runs struct {
	r       *replica
	keys    map[int32]*holding
	held    []*holding
	owned   []int // by group
	running int   // tasks
}

// holding is one key.
type holding struct {
	rs    *runs
	key   int32
	at    int // in held
	runs  bool
	token int64 // of the task
	hold  reconcile.Hold
}

func newRuns(r *replica) *runs {
	return &runs{r: r, keys: map[int32]*holding{}, owned: make([]int, len(r.list.groups))}
}

// expect takes note of a claim under way.
func (rs *runs) expect(h *holding) {
	h.at = len(rs.held)
	rs.keys[h.key] = h
	rs.held = append(rs.held, h)
	rs.owned[rs.r.list.group[h.key]]++
	rs.r.decider.dirty = true
}

// release asks for a key's release.
func (rs *runs) release(h *holding, next string) {
	if h.hold == reconcile.Releasing {
		return
	}
	h.hold = reconcile.Releasing
	n := rs.r.node
	n.Keys.Release(cluster.HandOver{Key: rs.r.list.name(h.key), Next: next}, n.Moment())
}

// releaseRemoved releases what is held and no longer declared.
func (rs *runs) releaseRemoved() {
	for _, h := range slices.Backward(rs.held) {
		if !rs.r.list.declared(h.key) {
			rs.release(h, "")
		}
	}
}

var _ engine.Work = (*holding)(nil)

// Start implements [engine.Work].
func (h *holding) Start(s engine.Start, _ record.TaskStatus) {
	rs := h.rs
	h.runs, h.token = true, s.Token
	rs.running++
	if h.hold == reconcile.Starting {
		h.hold = reconcile.Running
	}
	rs.r.decider.dirty = true
	rs.r.w.judge.start(rs.r, h.key, s.Token)
}

// killed is how long a killed task takes to be gone.
const killed = 20 * time.Millisecond

// Stop implements [engine.Work].
func (h *holding) Stop(cause engine.Cause) {
	rs := h.rs
	if h.hold == reconcile.Running {
		h.hold = reconcile.Starting // unless it is released, it is claimed again
	}
	if cause == engine.CauseLost {
		rs.endIn(h, killed)
		return
	}
	rs.endIn(h, rs.r.w.some(300*time.Millisecond))
}

// endIn lets the task of a key end after d.
func (rs *runs) endIn(h *holding, d time.Duration) {
	r, token := rs.r, h.token
	r.w.of(r, r.w.now+d, func() {
		if !h.runs || h.token != token {
			return
		}
		rs.end(h)
		r.node.Keys.Returned(r.list.name(h.key), record.TaskStatus{}, false, r.node.Moment())
		r.node.Settle()
		r.tick()
	})
}

func (rs *runs) end(h *holding) {
	h.runs = false
	rs.running--
	rs.r.w.judge.end(rs.r, h.key, h.token)
}

// buried ends every task at once.
func (rs *runs) buried() {
	for _, h := range rs.held {
		if h.runs {
			rs.end(h)
		}
	}
}

// deadlines does what a guard does at its deadlines: first it kills, and where that has not helped it ends the
// process. It reports whether the process is gone.
func (rs *runs) deadlines(now protocol.Instant) bool {
	r := rs.r
	p := r.w.p
	if rs.running == 0 || !now.Reached(r.acked, p.Kill) {
		return false
	}
	if now.Reached(r.acked, p.Hard) { // only a process that was frozen can come so far
		if r.w.now-r.thawed > thawLimit {
			r.w.wrong("%s: tasks live at the hard deadline", r.name)
		}
		r.restart(p.T / 10)
		return true
	}
	for _, h := range rs.held {
		if h.runs {
			rs.endIn(h, killed)
		}
	}
	return false
}

// Advanced implements [engine.Work].
func (*holding) Advanced(engine.Advanced) {}

// Freed implements [engine.Work].
func (h *holding) Freed(engine.Freed, bool, bool) {
	rs := h.rs
	delete(rs.keys, h.key)
	last := len(rs.held) - 1
	rs.held[h.at] = rs.held[last]
	rs.held[h.at].at = h.at
	rs.held = rs.held[:last]
	rs.owned[rs.r.list.group[h.key]]--
	rs.r.decider.dirty = true
}

// Refused implements [engine.Work].
func (*holding) Refused(error) bool { return false }

// stuck takes tasks that outlived their lease.
func (rs *runs) stuck(keys []record.Key) {
	if rs.r.w.now-rs.r.thawed > thawLimit {
		rs.r.w.wrong("%s: tasks outlive their lease: %v", rs.r.name, keys)
	}
	rs.r.w.of(rs.r, rs.r.w.now, func() { rs.r.restart(rs.r.w.p.T / 10) })
}

// reserved takes a key that was handed over to this session.
func (rs *runs) reserved(_ *engine.Engine, lock record.Lock) {
	if rs.r.list.declared(number(lock.Key)) {
		rs.r.claim(lock.Key)
	}
}

// observe takes what happened in the process. An acknowledged write, and the end of a session, make the next decision
// come soon.
func (r *replica) observe(x engine.Event) {
	switch x := x.(type) {
	case engine.LeaseChanged:
		r.acked = x.Lease.Acked
	case engine.SessionOver:
		r.decider.stale = true
	case engine.Acked:
		r.decider.dirty = true
	default:
	}
}

package simulation

import (
	"cmp"
	"slices"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/balancer"
)

// planner makes the plans that a snapshot is good for, each once.
type planner struct {
	snap  *snapshot
	plans map[planKey]*plan
	caps  map[int]map[string]int // the caps of all groups, by what they are
}

func newPlanner(s *snapshot) planner {
	return planner{snap: s, plans: map[planKey]*plan{}, caps: map[int]map[string]int{}}
}

// planKey says what a plan depends on in addition to the snapshot.
type planKey struct {
	members uint64 // who is alive, as seen by who asks
	list    int
	settled bool
}

// plan is what one plan says of each key and session.
type plan struct {
	ids   map[string]int32  // the sessions that are in it
	to    []int32           // by key: the session that shall own it
	claim map[int32][]int32 // by session: keys that it shall own and no session alive owns
}

func (p *plan) has(session string) bool {
	_, ok := p.ids[session]
	return ok
}

// plan is the plan of a replica for what it sees: one for all that see the same.
func (pl *planner) plan(r *replica, settled bool) *plan {
	pl.snap.w.figures.Asked++
	key := planKey{members: r.decider.members, list: r.list.revision, settled: settled}
	if p := pl.plans[key]; p != nil {
		return p
	}
	pl.snap.w.figures.Plans++
	in := r.list.input
	in.Members = pl.roster(r)
	for g := range in.Groups {
		keys := in.Groups[g].Keys
		if keys[0].Settled != !settled {
			for i := range keys {
				keys[i].Settled = !settled
			}
		}
	}
	p := pl.divide(r.list, balancer.Balance(in), in)
	pl.plans[key] = p
	return p
}

// roster lists the sessions that r sees alive, in the order that balancer wants them.
func (pl *planner) roster(r *replica) []balancer.Member {
	var members []balancer.Member
	add := func(id int32, draining bool) {
		if int(id) >= len(pl.snap.members) || !pl.snap.members[id].exists {
			return
		}
		about := &pl.snap.w.store.sessions[id]
		members = append(members, balancer.Member{
			ID: about.name, Name: about.replica.name, Draining: draining, Caps: pl.capsFor(r, id, pl.snap.members[id]),
		})
	}
	if r.ownState() != protocol.Dead {
		add(r.id, r.ownState() == protocol.Draining)
	}
	r.node.Peers.All.Each(func(session string, is protocol.State) {
		if is != protocol.Dead {
			add(pl.snap.w.store.number[session], is == protocol.Draining)
		}
	})
	slices.SortFunc(members, func(a, b balancer.Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return members
}

// capsFor is a member's caps. Who has another list gets no new keys: it claims only what it knows, by a plan of its
// own.
func (pl *planner) capsFor(r *replica, id int32, doc memberOf) map[string]int {
	if doc.list == r.list.revision {
		caps := pl.caps[doc.cap]
		if caps == nil {
			caps = map[string]int{}
			for _, g := range r.list.groups {
				caps[g] = doc.cap
			}
			pl.caps[doc.cap] = caps
		}
		return caps
	}
	caps := map[string]int{}
	count := pl.snap.w.ownedBy(id)
	for g, name := range r.list.groups {
		caps[name] = min(doc.cap, count[g])
	}
	return caps
}

// ownedBy counts the keys of a session by group, as its process knows them.
func (w *world) ownedBy(id int32) []int {
	if r := w.store.sessions[id].replica; r.up && r.id == id {
		return r.runs.owned
	}
	return make([]int, len(w.lists[0].groups))
}

// divide sorts a plan by session.
func (pl *planner) divide(l *list, b balancer.Plan, in balancer.Input) *plan {
	p := &plan{ids: make(map[string]int32, len(in.Members)), to: make([]int32, l.total), claim: map[int32][]int32{}}
	for i := range in.Members {
		p.ids[in.Members[i].ID] = pl.snap.w.store.number[in.Members[i].ID]
	}
	for g, keys := range l.keys {
		for at, key := range keys {
			next, owner := b.Groups[g].Owners[at], in.Groups[g].Keys[at].Owner
			if next == owner { // most keys stay
				p.to[key] = pl.snap.owners[key]
				continue
			}
			p.to[key] = noSession
			to, ok := p.ids[next]
			if !ok {
				continue
			}
			p.to[key] = to
			if !p.has(owner) {
				p.claim[to] = append(p.claim[to], key)
			}
		}
	}
	return p
}

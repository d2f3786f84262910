package view

import (
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
)

// isClient says whether a session declares no groups: it uses locks of its own and takes no part in running tasks.
func isClient(v cluster.Session) bool { return v.Known && v.Member.Client() }

// instanceIndex shows sessions as instances. The view is nil before there is a store.
type instanceIndex struct {
	view      *cluster.View
	owned     map[string]api.Counts    // session → group → keys whose lock names it
	ages      map[string]time.Duration // of sessions' newest heartbeats, as of now
	overrides overrideIndex
}

func newInstanceIndex(
	view *cluster.View, ages map[string]time.Duration, overrides overrideIndex,
) instanceIndex {
	ix := instanceIndex{view: view, owned: map[string]api.Counts{}, ages: ages, overrides: overrides}
	if view == nil {
		return ix
	}
	for key, lock := range view.Locks {
		if lock.Session == "" || key.Chore() {
			continue
		}
		if ix.owned[lock.Session] == nil {
			ix.owned[lock.Session] = api.Counts{}
		}
		ix.owned[lock.Session][key.Group()]++
	}
	return ix
}

// age is how long ago the session's newest heartbeat was seen.
func (ix instanceIndex) age(v cluster.Session) time.Duration {
	if age, ok := ix.ages[v.ID]; ok {
		return age
	}
	return v.Age
}

// deadShown is how long a dead session is still shown. One that ended gracefully is shown for as long as it is known.
const deadShown = 5 * time.Minute

// list is all instances, in any order. started is when this replica did, where its session does not say so.
func (ix instanceIndex) list(started time.Time) []api.Instance {
	if ix.view == nil {
		return nil
	}
	var list []api.Instance
	for _, v := range ix.view.Sessions {
		if v.State == record.Dead && !v.Left && ix.age(v) > deadShown || isClient(v) {
			continue
		}
		opened := record.Bounded(v.Member.Opened, ix.view.Now)
		if v.ID == ix.view.Session && opened == 0 {
			opened = started.UnixMilli()
		}
		held := ix.owned[v.ID]
		if v.State == record.Dead {
			held = nil // its orphans have no owner
		}
		list = append(list, api.Instance{
			Name: v.Member.Instance, Session: v.ID, State: ix.state(v), Message: ix.message(v),
			Zone: v.Member.Zone, Labels: v.Member.Labels, Version: v.Member.Version, Revision: v.Member.Revision,
			Address: v.Member.Address, AppAddress: v.Member.AppAddress, StartedAt: api.Millis(opened),
			Application:         application(v.Member.Application),
			HeartbeatAgeSeconds: ix.age(v).Round(time.Millisecond).Seconds(), Owned: held, Caps: v.Member.Caps,
			Overrides: ix.overrides.instances[v.Member.Instance],
		})
	}
	return list
}

// application shows what an instance knows of the process beside it; nil of nil.
func application(a *record.Application) *api.Application {
	if a == nil {
		return nil
	}
	shown := &api.Application{
		ID: a.ID, PID: a.PID, Ready: a.Ready, Message: a.Message, Since: api.Millis(a.Since), Status: a.Status,
	}
	for _, key := range slices.Sorted(maps.Keys(a.Stopping)) {
		shown.Stopping = append(shown.Stopping, api.StoppingKey{Key: key, By: api.Millis(a.Stopping[key])})
	}
	return shown
}

// leases is what is left of the lease of each session that lives.
func (ix instanceIndex) leases() map[string]time.Duration {
	left := map[string]time.Duration{}
	if ix.view == nil {
		return left
	}
	for _, v := range ix.view.Sessions {
		if v.State != record.Dead {
			left[v.ID] = max(0, time.Duration(v.Member.LeaseMS)*time.Millisecond-ix.age(v))
		}
	}
	return left
}

// state is draining also where only an operator drains the instance.
func (ix instanceIndex) state(v cluster.Session) api.InstanceState {
	drained := ix.overrides.has(v.Member.Instance, record.OverrideDrain)
	switch {
	case v.State == record.Dead && v.Left:
		return api.Left
	case v.State == record.Live && drained:
		return api.Draining
	default:
		return api.InstanceState(v.State)
	}
}

// message says why an instance is in its state, where that is not the usual one.
func (ix instanceIndex) message(v cluster.Session) string {
	switch v.State {
	case record.Dead:
		return v.Cause
	case record.Draining:
		return "it is stopping"
	default:
		return ix.overrides.describeInstance(v.Member.Instance)
	}
}

// offers are what the live instances that may own tasks of a group offer it.
func (ix instanceIndex) offers(g *settings.Group, owned map[string]int) []offer {
	if ix.view == nil {
		return nil
	}
	var offers []offer
	for _, member := range ix.view.Sessions {
		if member.State != record.Live || !member.Known || isClient(member) ||
			ix.overrides.has(member.Member.Instance, record.OverrideDrain) ||
			!balancer.Selects(g.Selector, member.Member.Labels) {
			continue
		}
		o := offer{Cap: -1, Owned: owned[member.ID]}
		if limit, ok := member.Member.Caps[g.Name]; ok {
			o.Cap = limit
		}
		if limit := member.Member.MaxTasks; limit > 0 {
			free := max(0, limit-ix.ownedInOtherGroups(member.ID, g.Name))
			if o.Cap < 0 || free < o.Cap {
				o.Cap = free
			}
		}
		if ix.overrides.has(member.Member.Instance, record.OverrideCordon) {
			o.Cap = o.Owned // it keeps what it has
		}
		offers = append(offers, o)
	}
	return offers
}

// ownedInOtherGroups counts what a session owns in other groups.
func (ix instanceIndex) ownedInOtherGroups(session, group string) int {
	n := 0
	for name, owned := range ix.owned[session] {
		if name != group {
			n += owned
		}
	}
	return n
}

// measure fills Capacity, Headroom and Imbalance of a group. Each offer is one live instance that may own tasks of this
// group. Count the tasks first. Without a cap (any offer unlimited) Capacity and Headroom are nil.
func measure(g *api.Group, offers []offer) {
	g.Capacity, g.Headroom, g.Imbalance = nil, nil, imbalance(offers)
	capacity, largest := 0, 0
	for _, p := range offers {
		if p.Cap < 0 {
			return
		}
		capacity += p.Cap
		largest = max(largest, p.Cap)
	}
	if len(offers) == 0 && g.Cap == nil {
		return
	}
	headroom := capacity - largest - g.Demand()
	g.Capacity, g.Headroom = &capacity, &headroom
}

// offer is what one live instance offers a group.
type offer struct {
	// most tasks of the group that it may own, its maxTasks less what it owns elsewhere included; below 0: no limit
	Cap   int
	Owned int // tasks of the group that it owns
}

// imbalance is the most that one of them owns less the fewest, not counting those that are below the most only because
// they are full.
func imbalance(offers []offer) int {
	most, fewest := 0, -1
	for _, p := range offers {
		most = max(most, p.Owned)
	}
	for _, p := range offers {
		full := p.Cap >= 0 && p.Owned >= p.Cap
		if full && p.Owned < most {
			continue
		}
		if fewest < 0 || p.Owned < fewest {
			fewest = p.Owned
		}
	}
	if fewest < 0 {
		return 0
	}
	return most - fewest
}

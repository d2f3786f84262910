package replica

import (
	"time"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// isClient says whether a session declares no groups: it uses locks of its own and takes no part in running tasks.
func isClient(v cluster.Session) bool { return v.Known && v.Member.Client() }

// members are the sessions, as a snapshot shows them. The view is nil before there is a store.
type members struct {
	view  *cluster.View
	owned map[string]api.Counts    // session → group → keys whose lock names it
	asked standing                 // what operators asked for
	ages  map[string]time.Duration // of sessions' newest heartbeats, as of now
}

func newMembers(view *cluster.View, asked standing) members {
	m := members{view: view, owned: map[string]api.Counts{}, asked: asked}
	if view == nil {
		return m
	}
	for key, lock := range view.Locks {
		if lock.Session == "" || key.Chore() {
			continue
		}
		if m.owned[lock.Session] == nil {
			m.owned[lock.Session] = api.Counts{}
		}
		m.owned[lock.Session][key.Group()]++
	}
	return m
}

// age is how long ago the session's newest heartbeat was seen.
func (m members) age(v cluster.Session) time.Duration {
	if age, ok := m.ages[v.ID]; ok {
		return age
	}
	return v.Age
}

// deadShown is how long a dead session is still shown. One that left is shown to those who ask, as long as it is known.
const deadShown = 5 * time.Minute

func (m members) instances(start time.Time) []api.Instance {
	if m.view == nil {
		return nil
	}
	var list []api.Instance
	for _, v := range m.view.Sessions {
		if v.State == record.Dead && !v.Left && m.age(v) > deadShown || isClient(v) {
			continue
		}
		started := api.Millis(v.Member.Opened)
		if v.ID == m.view.Session && v.Member.Opened == 0 {
			started = api.Millis(start.UnixMilli())
		}
		held := m.owned[v.ID]
		if v.State == record.Dead {
			held = nil // its orphans have no owner
		}
		list = append(list, api.Instance{
			Name: v.Member.Instance, Session: v.ID, State: m.instanceState(v), Message: m.instanceWords(v),
			Zone:    v.Member.Zone,
			Labels:  v.Member.Labels,
			Version: v.Member.Version, Revision: v.Member.Revision, Address: v.Member.Address, StartedAt: started,
			HeartbeatAgeSeconds: m.age(v).Round(time.Millisecond).Seconds(), Owned: held, Caps: v.Member.Caps,
			Overrides: m.asked.instances[v.Member.Instance],
		})
	}
	return list
}

// instanceState shows one that an operator drains as draining, whatever its session says.
func (m members) instanceState(v cluster.Session) api.InstanceState {
	drained := m.asked.has(v.Member.Instance, record.OverrideDrain)
	switch {
	case v.State == record.Dead && v.Left:
		return api.Left
	case v.State == record.Live && drained:
		return api.Draining
	default:
		return api.InstanceState(v.State)
	}
}

// instanceWords says why an instance is in its state, where that is not the usual one.
func (m members) instanceWords(v cluster.Session) string {
	switch v.State {
	case record.Dead:
		return v.Cause
	case record.Draining:
		return "it is stopping"
	default:
		return m.asked.ofInstance(v.Member.Instance)
	}
}

func (m members) offers(g config.Group, owned map[string]int) []status.Offer {
	if m.view == nil {
		return nil
	}
	var offers []status.Offer
	for _, member := range m.view.Sessions {
		if member.State != record.Live || !member.Known || isClient(member) ||
			m.asked.has(member.Member.Instance, record.OverrideDrain) ||
			!balancer.Selects(g.Selector, member.Member.Labels) {
			continue
		}
		offer := status.Offer{Cap: -1, Owned: owned[member.ID]}
		if limit, ok := member.Member.Caps[g.Name]; ok {
			offer.Cap = limit
		}
		if limit := member.Member.MaxTasks; limit > 0 {
			free := max(0, limit-m.ownedElsewhere(member.ID, g.Name))
			if offer.Cap < 0 || free < offer.Cap {
				offer.Cap = free
			}
		}
		if m.asked.has(member.Member.Instance, record.OverrideCordon) {
			offer.Cap = offer.Owned // it keeps what it has
		}
		offers = append(offers, offer)
	}
	return offers
}

// ownedElsewhere counts what a session owns in other groups.
func (m members) ownedElsewhere(session, group string) int {
	n := 0
	for name, owned := range m.owned[session] {
		if name != group {
			n += owned
		}
	}
	return n
}

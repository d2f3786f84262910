package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// material is what a snapshot is made from. view and report are nil before there is a store.
type material struct {
	settings *config.Settings
	view     *elect.View
	report   *balancer.Report
	reasons  leftOver
	live     map[string]string        // session → instance, of those not dead
	owned    map[string]status.Counts // session → group → keys whose lock names it
	paused   map[elect.Key]bool
	pins     map[elect.Key]string
	ages     map[string]time.Duration // of sessions' newest beats, as of now
}

// leftOver says why keys are unassigned.
type leftOver map[elect.Key]string

// count counts a group's keys that no cap has room for.
func (l leftOver) count(group string) int {
	n := 0
	for key, reason := range l {
		if key.Group() == group && reason == balancer.NoCapacity {
			n++
		}
	}
	return n
}

func gather(s *config.Settings, view *elect.View, report *balancer.Report) material {
	m := material{
		settings: s, view: view, report: report, reasons: leftOver{},
		live: map[string]string{}, owned: map[string]status.Counts{}, paused: map[elect.Key]bool{}, pins: map[elect.Key]string{},
	}
	if report != nil {
		for _, u := range report.Unassigned {
			m.reasons[u.Key] = u.Reason
		}
	}
	if view == nil {
		return m
	}
	for _, v := range view.Sessions {
		if v.State != elect.Dead {
			m.live[v.ID] = v.Member.Instance
		}
	}
	for key, lock := range view.Locks {
		if lock.Session == "" {
			continue
		}
		if m.owned[lock.Session] == nil {
			m.owned[lock.Session] = status.Counts{}
		}
		m.owned[lock.Session][key.Group()]++
	}
	for _, w := range view.Wishes {
		switch w.Kind {
		case elect.WishPause:
			m.paused[elect.Key(w.Name)] = true
		case elect.WishPin:
			m.pins[elect.Key(w.Name)] = w.To
		case elect.WishDrain, elect.WishRerun:
		}
	}
	return m
}

// lock is what is known of a key's lock; without a view, nothing.
func (m material) lock(key elect.Key) elect.Lock {
	if m.view == nil {
		return elect.Lock{Key: key}
	}
	return m.view.Locks[key]
}

// task shows one task.
func (m material) task(t *tasks.Task) status.Task {
	key := t.Key()
	lock := m.lock(key)
	owner, owned := m.live[lock.Session]
	owned = owned && lock.Session != ""
	shown := status.Task{
		Key: string(key), Group: t.Group, Name: t.Name, Kind: t.Kind(), Labels: t.Labels,
		FencingToken: lock.Token, Reason: string(lock.Reason), Message: lock.Message,
		Restarts: lock.Status.Restarts, LastError: lock.Status.LastError, PinnedTo: m.pins[key],
		StateSince: status.Millis(max(lock.Status.Since, lock.Since)),
	}
	if owned {
		shown.Instance, shown.Session, shown.OwnedSince = owner, lock.Session, status.Millis(lock.Since)
		shown.State = m.ownedState(key, lock)
		shown.NextRunAt = status.Millis(lock.Status.NextRunAt)
		return shown
	}
	shown.State = m.freeState(key, lock)
	if shown.State == status.Unassigned {
		shown.Reason, shown.Message = m.whyUnassigned(t, lock)
	}
	return shown
}

func (m material) ownedState(key elect.Key, lock elect.Lock) status.TaskState {
	if h, held := m.view.Held[key]; held && (h.Phase == protocol.Stopping || h.Phase == protocol.Releasing) {
		return status.Stopping
	}
	state := status.TaskState(lock.Status.State)
	if state == status.Done || state == status.Failed {
		return status.Stopping // its outcome is written, its key not given up yet
	}
	if !slices.Contains(status.TaskStates(), state) || state == status.Unassigned || state == status.Paused {
		return status.Starting
	}
	return state
}

func (m material) freeState(key elect.Key, lock elect.Lock) status.TaskState {
	switch {
	case m.paused[key]:
		return status.Paused
	case lock.Suspended && lock.Status.Outcome != nil && lock.Status.Outcome.Succeeded:
		return status.Done
	case lock.Suspended && lock.Status.Outcome != nil:
		return status.Failed
	}
	return status.Unassigned
}

// whyUnassigned says in one word and one sentence why nobody owns the task now.
func (m material) whyUnassigned(t *tasks.Task, lock elect.Lock) (reason, message string) {
	if m.view == nil || !m.view.Loaded {
		return status.ProblemStoreUnreachable, "the store has not been read yet: who owns it is not known"
	}
	switch reason := m.reasons[t.Key()]; reason {
	case balancer.NoCapacity:
		return reason, "every instance that may own it is full"
	case balancer.NoInstance:
		return reason, "no live instance may own tasks of group " + t.Group
	case balancer.PinUnavailable:
		return reason, "it is pinned strictly to " + m.pins[t.Key()] + ", which is not there or is full"
	}
	switch {
	case lock.Session != "":
		return string(elect.ReasonOrphaned), lock.Instance + " is gone: about to be taken over"
	case lock.Token != 0:
		return string(lock.Reason), "given up by " + lock.From + ": about to be claimed"
	}
	return string(elect.ReasonCreated), "about to be claimed for the first time"
}

// noCapacity tells the sum in words.
func (m material) noCapacity(g *status.Group, left int) string {
	places := "no places"
	if g.Capacity != nil {
		places = fmt.Sprintf("%d places", *g.Capacity)
	}
	return fmt.Sprintf("%d of %d tasks have no owner: there are %s; raise the cap or add replicas", left, g.Demand(), places)
}

// age is how long ago the session's newest beat was seen.
func (m material) age(v elect.SessionView) time.Duration {
	if age, ok := m.ages[v.ID]; ok {
		return age
	}
	return v.Age
}

// deadShown is how long a dead session is still shown.
const deadShown = 5 * time.Minute

func (m material) instances(start time.Time) []status.Instance {
	if m.view == nil {
		return nil
	}
	var list []status.Instance
	for _, v := range m.view.Sessions {
		if v.State == elect.Dead && m.age(v) > deadShown {
			continue
		}
		started := status.Millis(v.Member.Opened)
		if v.ID == m.view.Session && v.Member.Opened == 0 {
			started = status.Millis(start.UnixMilli())
		}
		held := m.owned[v.ID]
		if v.State == elect.Dead {
			held = nil // its orphans are nobody's
		}
		list = append(list, status.Instance{
			Name: v.Member.Instance, Session: v.ID, State: status.InstanceState(v.State), Zone: v.Member.Zone, Labels: v.Member.Labels,
			Version: v.Member.Version, Revision: v.Member.Revision, Address: v.Member.Address, StartedAt: started,
			HeartbeatAgeSeconds: m.age(v).Round(time.Millisecond).Seconds(), Owned: held, Caps: v.Member.Caps,
		})
	}
	return list
}

func (m material) locks() []status.Lock {
	if m.view == nil {
		return nil
	}
	list := make([]status.Lock, 0, len(m.view.Locks))
	for key, l := range m.view.Locks {
		shown := status.Lock{
			Key: string(key), Group: key.Group(), Name: key.Name(), Instance: l.Instance, Session: l.Session, FencingToken: l.Token,
			Reason: string(l.Reason), Message: l.Message, Next: l.Next, Parked: l.Suspended,
		}
		if l.Session != "" {
			shown.OwnedSince = status.Millis(l.Since)
		}
		list = append(list, shown)
	}
	return list
}

// group counts a group's tasks, and its room on the live instances that may own them.
func (m material) group(g config.Group, shown []status.Task) status.Group {
	group := status.Group{Name: g.Name, Cap: g.Cap}
	owned := map[string]int{}
	for i := range shown {
		group.Count(shown[i].State)
		owned[shown[i].Session]++
	}
	group.Room(m.places(g, owned))
	return group
}

func (m material) places(g config.Group, owned map[string]int) []status.Place {
	if m.view == nil {
		return nil
	}
	var places []status.Place
	for _, member := range m.view.Sessions {
		if member.State != elect.Live || !member.Known || !balancer.Selects(g.Selector, member.Member.Labels) {
			continue
		}
		place := status.Place{Cap: -1, Owned: owned[member.ID]}
		if limit, ok := member.Member.Caps[g.Name]; ok {
			place.Cap = limit
		}
		if limit := member.Member.MaxTasks; limit > 0 {
			room := max(0, limit-m.ownedElsewhere(member.ID, g.Name))
			if place.Cap < 0 || room < place.Cap {
				place.Cap = room
			}
		}
		places = append(places, place)
	}
	return places
}

// ownedElsewhere counts what a session owns in other groups.
func (m material) ownedElsewhere(session, group string) int {
	n := 0
	for name, owned := range m.owned[session] {
		if name != group {
			n += owned
		}
	}
	return n
}

package replica

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// material is what a snapshot is made from. view and report are nil before there is a store.
type material struct {
	settings *config.Settings
	view     *cluster.View
	report   *balancer.Report
	reasons  leftOver
	live     map[string]string        // session → instance, of those not dead
	owned    map[string]status.Counts // session → group → keys whose lock names it
	paused   map[elect.Key]bool
	pins     map[elect.Key]string
	ages     map[string]time.Duration // of sessions' newest heartbeats, as of now

	heartbeat heartbeat // this replica's last
}

// leftOver says why keys are unassigned.
type leftOver map[elect.Key]string

// count counts a group's keys that are unassigned for this reason.
func (l leftOver) count(group, reason string) int {
	n := 0
	for key, why := range l {
		if key.Group() == group && why == reason {
			n++
		}
	}
	return n
}

func gather(s *config.Settings, view *cluster.View, report *balancer.Report) material {
	m := material{
		settings: s, view: view, report: report, reasons: leftOver{},
		live: map[string]string{}, owned: map[string]status.Counts{}, paused: map[elect.Key]bool{},
		pins: map[elect.Key]string{},
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
		if v.State != record.Dead {
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
	for _, w := range view.Overrides {
		switch w.Kind {
		case record.OverridePause:
			m.paused[elect.Key(w.Name)] = true
		case record.OverridePin:
			m.pins[elect.Key(w.Name)] = w.To
		case record.OverrideDrain, record.OverrideRerun:
		}
	}
	return m
}

// lock is what is known of a key's lock; without a view, nothing.
func (m material) lock(key elect.Key) record.Lock {
	if m.view == nil {
		return record.Lock{Key: key}
	}
	return m.view.Lock(key)
}

// lists are the tasks, locks and groups of a snapshot, not yet in order.
func (m material) lists() *status.Snapshot {
	s := &status.Snapshot{Locks: m.locks(), Tasks: make([]status.Task, 0, m.settings.Tasks())}
	for _, g := range m.settings.Groups {
		first := len(s.Tasks)
		for i := range g.Tasks {
			s.Tasks = append(s.Tasks, m.task(&g.Tasks[i]))
		}
		s.Status.Groups = append(s.Status.Groups, m.group(g, s.Tasks[first:]))
	}
	return s
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

func (m material) ownedState(key elect.Key, lock record.Lock) status.TaskState {
	if h, held := m.view.Held[key]; held && (h.Phase == cluster.PhaseStopping || h.Phase == cluster.PhaseReleasing) {
		return status.Stopping
	}
	state := status.TaskState(lock.Status.State)
	if state == status.Done || state == status.Failed {
		return status.Stopping // its outcome is written, its key not released yet
	}
	if !slices.Contains(status.TaskStates(), state) || state == status.Unassigned || state == status.Paused {
		return status.Starting
	}
	return state
}

func (m material) freeState(key elect.Key, lock record.Lock) status.TaskState {
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

// whyUnassigned says in one word and one sentence why the task has no owner now.
func (m material) whyUnassigned(t *tasks.Task, lock record.Lock) (reason, message string) {
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
		return string(record.ReasonOrphaned), lock.Instance + " is gone: about to be taken over"
	case lock.Token != 0:
		return string(lock.Reason), "released by " + lock.From + ": about to be claimed"
	}
	return string(record.ReasonCreated), "about to be claimed for the first time"
}

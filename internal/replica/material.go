package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// material is what a snapshot is made from. view and report are nil before there is a store.
type material struct {
	settings *config.Settings
	read     read
	view     *cluster.View
	report   *balancer.Report
	reasons  leftOver
	live     map[string]string        // session → instance, of those not dead
	owned    map[string]api.Counts    // session → group → keys whose lock names it
	asked    standing                 // what operators asked for
	ages     map[string]time.Duration // of sessions' newest heartbeats, as of now

	heartbeat heartbeat // this replica's last
}

// leftOver says why keys are unassigned.
type leftOver map[elect.Key]balancer.Refusal

// count counts a group's keys that are unassigned for this reason.
func (l leftOver) count(group, reason string) int {
	n := 0
	for key, why := range l {
		if key.Group() == group && why.Reason == reason {
			n++
		}
	}
	return n
}

// words is what one of a group's keys that are unassigned for this reason is said.
func (l leftOver) words(group, reason string) string {
	first := balancer.Refusal{}
	for key, why := range l {
		if key.Group() == group && why.Reason == reason && (first.Key == "" || key < first.Key) {
			first = why
		}
	}
	return first.Message
}

func gather(s *config.Settings, view *cluster.View, report *balancer.Report) material {
	m := material{
		settings: s, view: view, report: report, reasons: leftOver{},
		live: map[string]string{}, owned: map[string]api.Counts{},
	}
	if report != nil {
		for _, u := range report.Unassigned {
			m.reasons[u.Key] = u
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
		if lock.Session == "" || key.Chore() {
			continue
		}
		if m.owned[lock.Session] == nil {
			m.owned[lock.Session] = api.Counts{}
		}
		m.owned[lock.Session][key.Group()]++
	}
	m.asked = standingOf(view)
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
	s := &status.Snapshot{Locks: m.locks(), Tasks: make([]api.Task, 0, m.settings.Tasks())}
	for _, g := range m.settings.Groups {
		first := len(s.Tasks)
		for i := range g.Tasks {
			shown := m.task(&g.Tasks[i])
			shown.Weight = m.read.weights.of(&g, &g.Tasks[i])
			s.Tasks = append(s.Tasks, shown)
		}
		s.Status.Groups = append(s.Status.Groups, m.group(g, s.Tasks[first:]))
	}
	return s
}

// task shows one task.
func (m material) task(t *tasks.Task) api.Task {
	key := t.Key()
	lock := m.lock(key)
	owner, owned := m.live[lock.Session]
	owned = owned && lock.Session != ""
	shown := api.Task{
		Key: string(key), Group: t.Group, Name: t.Name, Kind: t.Kind(), Labels: t.Labels,
		Owner: api.Owner{FencingToken: lock.Token}, Reason: string(lock.Reason), Message: lock.Message,
		Restarts: lock.Status.Restarts, LastError: lock.Status.LastError, PinnedTo: m.asked.pinnedTo(key),
		Overrides: m.asked.ofTask(key),
		Weight:    t.Weight, DeclaredWeight: t.Weight,
		StateSince: api.Millis(max(lock.Status.Since, lock.Since)),
	}
	if lag := lock.Status.Lag; lag.Known {
		shown.Lag = &api.Lag{Messages: lag.Messages, Seconds: lag.Seconds}
	}
	if owned {
		shown.Instance, shown.Session, shown.OwnedSince = owner, lock.Session, api.Millis(lock.Since)
		shown.State = m.ownedState(key, lock)
		shown.NextRunAt = api.Millis(lock.Status.NextRunAt)
		return shown
	}
	shown.State = m.freeState(key, lock)
	switch shown.State {
	case api.Unassigned:
		shown.Reason, shown.Message = m.whyUnassigned(t, lock)
	case api.Paused:
		shown.Reason, shown.Message = string(record.ReasonPaused), whyPaused(m.asked.pause(key))
	default:
	}
	return shown
}

func (m material) ownedState(key elect.Key, lock record.Lock) api.TaskState {
	if h, held := m.view.Held[key]; held && (h.Phase == cluster.PhaseStopping || h.Phase == cluster.PhaseReleasing) {
		return api.Stopping
	}
	state := api.TaskState(lock.Status.State)
	if state == api.Done || state == api.Failed {
		return api.Stopping // its outcome is written, its key not released yet
	}
	if !slices.Contains(api.TaskStates(), state) || state == api.Unassigned || state == api.Paused {
		return api.Starting
	}
	return state
}

func (m material) freeState(key elect.Key, lock record.Lock) api.TaskState {
	switch {
	case m.asked.pause(key) != nil:
		return api.Paused
	case lock.Suspended && lock.Status.Outcome != nil && lock.Status.Outcome.Succeeded:
		return api.Done
	case lock.Suspended && lock.Status.Outcome != nil:
		return api.Failed
	}
	return api.Unassigned
}

// whyUnassigned says in one word and one sentence why the task has no owner now.
func (m material) whyUnassigned(t *tasks.Task, lock record.Lock) (reason, message string) {
	if m.view == nil || !m.view.Loaded {
		return api.ProblemStoreUnreachable, "the store has not been read yet: who owns it is not known"
	}
	if why, refused := m.reasons[t.Key()]; refused {
		return why.Reason, why.Message
	}
	switch {
	case lock.Session != "":
		return string(record.ReasonOrphaned), m.orphaned(&lock)
	case lock.Token != 0:
		return string(lock.Reason), "released by " + lock.From + ": about to be claimed"
	}
	return string(record.ReasonCreated), "about to be claimed for the first time"
}

// orphaned says what a key whose owner is dead waits for.
func (m material) orphaned(lock *record.Lock) string {
	for i := range m.view.Sessions {
		v := &m.view.Sessions[i]
		switch {
		case v.ID != lock.Session:
		case v.Remote[lock.Key] > 0:
			return fmt.Sprintf("%s died: %s. It waits for the remote lease that an HTTP endpoint has of it",
				lock.Instance, v.Cause)
		case v.Cause != "":
			return fmt.Sprintf("%s died: %s. It is about to be taken over", lock.Instance, v.Cause)
		}
	}
	return lock.Instance + " is gone: about to be taken over"
}

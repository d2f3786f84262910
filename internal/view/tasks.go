package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// taskIndex shows tasks and locks. The view is nil before there is a store.
type taskIndex struct {
	settings  *settings.Settings
	view      *cluster.View
	sessions  map[string]*cluster.Session // by id
	refusals  refusals
	overrides overrideIndex
}

func newTaskIndex(in *Input, overrides overrideIndex) taskIndex {
	ix := taskIndex{
		settings: in.Settings, view: in.Cluster, sessions: map[string]*cluster.Session{}, refusals: in.unassigned(),
		overrides: overrides,
	}
	if ix.view != nil {
		for i := range ix.view.Sessions {
			ix.sessions[ix.view.Sessions[i].ID] = &ix.view.Sessions[i]
		}
	}
	return ix
}

// lock is what is known of a key's lock; without a view, nothing. Of a key that this replica owns its status is what
// the run said last, written or not: what happens here is known also while the store is away.
func (ix taskIndex) lock(key record.Key) record.Lock {
	if ix.view == nil {
		return record.Lock{Key: key}
	}
	lock := ix.view.Lock(key)
	if held, own := ix.own(key, lock); own && held.Status != nil {
		lock.Status = *held.Status
	}
	return lock
}

// own is the key as this replica holds it; own is false where it does not.
func (ix taskIndex) own(key record.Key, lock record.Lock) (held cluster.Held, own bool) {
	if ix.view == nil || lock.Session != ix.view.Session {
		return cluster.Held{}, false
	}
	held, own = ix.view.Held[key]
	return held, own
}

// owner is who owns the key of a lock.
func (ix taskIndex) owner(lock *record.Lock) (cluster.Owner, bool) {
	if ix.view == nil {
		return cluster.Owner{}, false
	}
	return ix.view.OwnerAt(lock, ix.sessions[lock.Session])
}

// task is one task as it is shown, with its declared weight.
func (ix taskIndex) task(t *tasks.Task) api.Task {
	key := t.Key()
	lock := ix.lock(key)
	owner, owned := ix.owner(&lock)
	shown := api.Task{
		Key: string(key), Group: t.Group, Name: t.Name, Kind: t.Kind(), Labels: t.Labels,
		Owner: api.Owner{FencingToken: lock.Token}, Reason: string(lock.Reason), Message: lock.Message,
		Restarts: lock.Status.Restarts, LastError: lock.Status.LastError, PinnedTo: ix.overrides.pinnedTo(key),
		Overrides: ix.overrides.ofTask(key),
		Weight:    t.Weight, DeclaredWeight: t.Weight, Declared: ix.settings.Declared(t),
		StateSince: api.Millis(max(lock.Status.Since, lock.Since)),
	}
	if lag := lock.Status.Lag; lag.Known {
		shown.Lag = &api.Lag{Messages: lag.Messages, Seconds: lag.Seconds}
	}
	if lock.Status.Load.Known {
		shown.Load = new(lock.Status.Load.Value)
	}
	if owned {
		shown.Instance, shown.Session, shown.OwnedSince = owner.Instance, owner.Session, api.Millis(lock.Since)
		shown.State = ix.ownedState(key, lock)
		shown.NextRunAt = api.Millis(lock.Status.NextRunAt)
		return shown
	}
	shown.State = ix.freeState(key, lock)
	switch shown.State {
	case api.Unassigned:
		shown.Reason, shown.Message = ix.whyUnassigned(t, lock)
	case api.Paused:
		shown.Reason, shown.Message = string(record.ReasonPaused), whyPaused(ix.overrides.pause(key))
	default:
	}
	return shown
}

func (ix taskIndex) ownedState(key record.Key, lock record.Lock) api.TaskState {
	held, _ := ix.own(key, lock)
	switch held.Phase {
	case cluster.PhaseStopping, cluster.PhaseReleasing:
		return api.Stopping
	case cluster.PhaseClaiming: // again, after its lease was over
		return api.Starting
	default:
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

func (ix taskIndex) freeState(key record.Key, lock record.Lock) api.TaskState {
	switch {
	case ix.overrides.pause(key) != nil:
		return api.Paused
	case lock.Suspended && lock.Status.Outcome != nil && lock.Status.Outcome.Succeeded:
		return api.Done
	case lock.Suspended && lock.Status.Outcome != nil:
		return api.Failed
	}
	return api.Unassigned
}

// whyUnassigned says in one word and one sentence why the task has no owner now.
func (ix taskIndex) whyUnassigned(t *tasks.Task, lock record.Lock) (reason, message string) {
	if ix.view == nil || !ix.view.Loaded {
		return api.ProblemStoreUnreachable, "the store has not been read yet: who owns it is not known"
	}
	if why, refused := ix.refusals.of(t.Key()); refused {
		return why.Reason, why.Message
	}
	_, own := ix.own(t.Key(), lock)
	switch {
	case own: // and not the owner: its lease is over
		return api.ProblemStoreUnreachable, ix.view.Instance + " stopped it when its lease was over, since the store " +
			"did not answer. Whether another replica runs it by now is not known"
	case ix.view.Orphaned(&lock, ix.sessions[lock.Session]):
		return string(record.ReasonOrphaned), ix.whyOrphaned(t.Kind(), &lock)
	case lock.Token != 0:
		return string(lock.Reason), "released by " + lock.From + ": about to be claimed"
	}
	return string(record.ReasonCreated), "about to be claimed for the first time"
}

// whyOrphaned tells what an orphan waits for. Its task is of that kind.
func (ix taskIndex) whyOrphaned(kind string, lock *record.Lock) string {
	runner := "an HTTP endpoint"
	if kind == settings.Assign {
		runner = "an application"
	}
	switch owner := ix.sessions[lock.Session]; {
	case owner != nil && owner.Remote[lock.Key] > 0:
		return fmt.Sprintf("%s died: %s. It waits for the remote lease that %s has of it",
			lock.Instance, owner.Cause, runner)
	case owner != nil && owner.Cause != "":
		return fmt.Sprintf("%s died: %s. It is about to be taken over", lock.Instance, owner.Cause)
	}
	return lock.Instance + " is gone: about to be taken over"
}

// locks are the locks of tasks and chores, in order.
func (ix taskIndex) locks() []api.Lock {
	if ix.view == nil {
		return nil
	}
	list := make([]api.Lock, 0, len(ix.view.Locks))
	for key, l := range ix.view.Locks {
		shown := api.Lock{
			Key: string(key), Group: key.Group(), Name: key.Name(),
			Owner:  api.Owner{Instance: l.Instance, Session: l.Session, FencingToken: l.Token},
			Reason: string(l.Reason), Message: l.Message, Next: l.Next, Suspended: l.Suspended, Kind: api.LockTask,
		}
		if key.Chore() {
			shown.Kind = api.LockChore
		}
		if l.Session != "" {
			shown.OwnedSince = api.Millis(l.Since)
		}
		list = append(list, shown)
	}
	snapshot.SortLocks(list)
	return list
}

// refusals are why keys are unassigned, in order of keys.
type refusals []reconcile.Refusal

// of returns why a key is unassigned; false: it is not.
func (r refusals) of(key record.Key) (reconcile.Refusal, bool) {
	at, found := slices.BinarySearchFunc(r, key, func(why reconcile.Refusal, key record.Key) int {
		return cmp.Compare(why.Key, key)
	})
	if !found {
		return reconcile.Refusal{}, false
	}
	return r[at], true
}

// count counts a group's keys that are unassigned for this reason.
func (r refusals) count(group, reason string) int {
	n := 0
	for _, why := range r {
		if why.Key.Group() == group && why.Reason == reason {
			n++
		}
	}
	return n
}

// message returns that of the first of a group's keys that are unassigned for this reason, empty if there is none.
func (r refusals) message(group, reason string) string {
	for _, why := range r {
		if why.Key.Group() == group && why.Reason == reason {
			return why.Message
		}
	}
	return ""
}

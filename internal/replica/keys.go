package replica

import (
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// keys are the tasks and locks, as a snapshot shows them. The view is nil before there is a store.
type keys struct {
	view    *cluster.View
	live    map[string]string // session → instance, of those not dead
	reasons leftOver
	asked   standing // what operators asked for
}

func newKeys(view *cluster.View, report *balancer.Report, asked standing) keys {
	k := keys{view: view, live: map[string]string{}, reasons: leftOver{}, asked: asked}
	if report != nil {
		for _, u := range report.Unassigned {
			k.reasons[u.Key] = u
		}
	}
	if view != nil {
		for _, v := range view.Sessions {
			if v.State != record.Dead {
				k.live[v.ID] = v.Member.Instance
			}
		}
	}
	return k
}

// lock is what is known of a key's lock; without a view, nothing. Of a key that this replica owns its status is what
// the run said last, written or not: what happens here is known also while the store is away.
func (k keys) lock(key elect.Key) record.Lock {
	if k.view == nil {
		return record.Lock{Key: key}
	}
	lock := k.view.Lock(key)
	if held, own := k.own(key, lock); own && held.Status != nil {
		lock.Status = *held.Status
	}
	return lock
}

// own is the key as this replica holds it; false: it does not own it.
func (k keys) own(key elect.Key, lock record.Lock) (held cluster.Held, own bool) {
	if k.view == nil || lock.Session != k.view.Session {
		return cluster.Held{}, false
	}
	held, own = k.view.Held[key]
	return held, own
}

// expired says whether this replica has stopped the task since its lease is over. Whether another one has it by now is
// not known then.
func (k keys) expired(key elect.Key, lock record.Lock) bool {
	held, own := k.own(key, lock)
	return own && held.Phase == cluster.PhaseWaiting
}

// task shows one task.
func (k keys) task(t *tasks.Task) api.Task {
	key := t.Key()
	lock := k.lock(key)
	owner, owned := k.live[lock.Session]
	owned = owned && lock.Session != "" && !k.expired(key, lock)
	shown := api.Task{
		Key: string(key), Group: t.Group, Name: t.Name, Kind: t.Kind(), Labels: t.Labels,
		Owner: api.Owner{FencingToken: lock.Token}, Reason: string(lock.Reason), Message: lock.Message,
		Restarts: lock.Status.Restarts, LastError: lock.Status.LastError, PinnedTo: k.asked.pinnedTo(key),
		Overrides: k.asked.ofTask(key),
		Weight:    t.Weight, DeclaredWeight: t.Weight,
		StateSince: api.Millis(max(lock.Status.Since, lock.Since)),
	}
	if lag := lock.Status.Lag; lag.Known {
		shown.Lag = &api.Lag{Messages: lag.Messages, Seconds: lag.Seconds}
	}
	if owned {
		shown.Instance, shown.Session, shown.OwnedSince = owner, lock.Session, api.Millis(lock.Since)
		shown.State = k.ownedState(key, lock)
		shown.NextRunAt = api.Millis(lock.Status.NextRunAt)
		return shown
	}
	shown.State = k.freeState(key, lock)
	switch shown.State {
	case api.Unassigned:
		shown.Reason, shown.Message = k.whyUnassigned(t, lock)
	case api.Paused:
		shown.Reason, shown.Message = string(record.ReasonPaused), whyPaused(k.asked.pause(key))
	default:
	}
	return shown
}

func (k keys) ownedState(key elect.Key, lock record.Lock) api.TaskState {
	held, _ := k.own(key, lock)
	switch held.Phase {
	case cluster.PhaseStopping, cluster.PhaseReleasing:
		return api.Stopping
	case cluster.PhaseClaiming: // again, after its lease was over
		return api.Starting
	case cluster.PhaseWaiting, cluster.PhaseRunning:
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

func (k keys) freeState(key elect.Key, lock record.Lock) api.TaskState {
	switch {
	case k.asked.pause(key) != nil:
		return api.Paused
	case lock.Suspended && lock.Status.Outcome != nil && lock.Status.Outcome.Succeeded:
		return api.Done
	case lock.Suspended && lock.Status.Outcome != nil:
		return api.Failed
	}
	return api.Unassigned
}

// whyUnassigned says in one word and one sentence why the task has no owner now.
func (k keys) whyUnassigned(t *tasks.Task, lock record.Lock) (reason, message string) {
	if k.view == nil || !k.view.Loaded {
		return api.ProblemStoreUnreachable, "the store has not been read yet: who owns it is not known"
	}
	if why, refused := k.reasons[t.Key()]; refused {
		return why.Reason, why.Message
	}
	switch {
	case k.expired(t.Key(), lock):
		return api.ProblemStoreUnreachable, k.view.Instance + " stopped it when its lease was over, since the store " +
			"did not answer. Whether another replica runs it by now is not known"
	case lock.Session != "":
		return string(record.ReasonOrphaned), k.orphaned(&lock)
	case lock.Token != 0:
		return string(lock.Reason), "released by " + lock.From + ": about to be claimed"
	}
	return string(record.ReasonCreated), "about to be claimed for the first time"
}

// orphaned says what a key whose owner is dead waits for.
func (k keys) orphaned(lock *record.Lock) string {
	for i := range k.view.Sessions {
		v := &k.view.Sessions[i]
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

func (k keys) locks() []api.Lock {
	if k.view == nil {
		return nil
	}
	list := make([]api.Lock, 0, len(k.view.Locks))
	for key, l := range k.view.Locks {
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
	return list
}

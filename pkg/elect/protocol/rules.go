package protocol

import "time"

// What connects the machines. The loop keeps maps of them and asks these functions; a model checker asks the same.

// Freed says whether keys of this session may be claimed: it is known to be dead, and no HTTP endpoint holds a
// grant any more. granted is what its document leaves open for the key, counted from the moment at which it was
// first seen to be dead.
func (q Peer) Freed(granted time.Duration, now Instant) bool {
	return q.Dead() && (granted <= 0 || now.KillerElapsed(q.DeadAt) >= granted)
}

// OutageSince says whether nothing has succeeded since the last success for so long that what is seen of others says
// nothing about them. They may have been as unable to write as this process was to read. With the next success all ages
// start again ([PeerReset]).
func (p Params) OutageSince(last, now Instant) bool { return now.HolderElapsed(last) > p.Outage }

// StoreUnreachable says whether this process reaches the store too badly to judge others. Then its looks at them, or
// its own heartbeats once it has begun to heartbeat, have failed for longer than T/4.
func (s Session) StoreUnreachable(p Params, lastLook, lastHeartbeat, now Instant) bool {
	return p.OutageSince(lastLook, now) || s.Phase == Open && p.OutageSince(lastHeartbeat, now)
}

// ForKeys is what an action of the session means for each of its keys, if anything. A cancelled lease stops what runs,
// a lost session takes every key away.
func (s Session) ForKeys(a SessionActionKind) (KeyEventKind, bool) {
	switch {
	case a == CancelTasks:
		return KeyDeadline, true
	case a == KillTasks && s.Phase == Lost:
		return KeyLose, true
	}
	return 0, false
}

// TasksOff says whether the session is to be reported [SessionTasksOff]: nothing runs, and where it ends in order no
// key is held either.
func (s Session) TasksOff(running, held int) bool {
	return running == 0 && (s.Phase == Lost || s.End && held == 0)
}

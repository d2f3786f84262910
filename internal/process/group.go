package process

import (
	"errors"

	"golang.org/x/sys/unix"
)

// SignalGroup signals a process group. The number must be known to be the group's still: while its leader is not
// reaped.
func SignalGroup(group int, sig unix.Signal) {
	_ = unix.Kill(-group, sig) // fails when none of it is left
}

// GroupEmpty says whether a group has no process at all, zombies included: one signal 0. While it is not empty its
// number is not given to another process.
func GroupEmpty(group int) bool { return errors.Is(unix.Kill(-group, 0), unix.ESRCH) }

// GroupGone says whether no process of a group is left, once its leader has been reaped. Zombies count as gone, since
// a container's PID 1 may never reap them. A living process may have forked while one looked. After a SIGKILL to all
// of them none can, so that the second look decides.
func GroupGone(group int) bool {
	if GroupEmpty(group) {
		return true
	}
	if !onlyZombies(group) {
		return false
	}
	SignalGroup(group, unix.SIGKILL)
	return onlyZombies(group)
}

// onlyZombies says whether every process of the group is dead and waits to be reaped. False when that cannot be seen.
func onlyZombies(group int) bool {
	all, err := All()
	if err != nil {
		return false
	}
	seen := false
	for _, p := range all {
		if p.Group != group {
			continue
		}
		if !p.Zombie {
			return false
		}
		seen = true
	}
	return seen
}

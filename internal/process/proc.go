// Package process starts, finds, signals and reaps processes. The guard and pkg/tasks both build on it, so that there
// is one answer to each of these questions.
//
// A command is started as a process group of its own, from a [Thread] that lives as long as its [Spawner]. On Linux it
// dies with that thread (PR_SET_PDEATHSIG), and a subreaper gets its orphans. Signals go through pidfds, which never
// reach a process that merely has the same number. Elsewhere a command is its process group and nothing else can be
// found.
package process

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Proc is one process as it was seen. PID and Start together never name two processes.
type Proc struct {
	PID, Parent, Group int
	Start              uint64 // clock ticks since the boot
	Zombie             bool
	CPU                time.Duration // processor time so far: its own, and that of children that it has waited for
}

// ID names a process for good.
type ID struct {
	PID   int
	Start uint64
}

// ID is what names p for good.
func (p Proc) ID() ID { return ID{p.PID, p.Start} }

// Tree is a set of processes by their parents.
type Tree map[int][]Proc

// TreeOf sorts processes by their parents.
func TreeOf(all []Proc) Tree {
	t := Tree{}
	for _, p := range all {
		t[p.Parent] = append(t[p.Parent], p)
	}
	return t
}

// Below is root and everything below it, without zombies that another process has to reap.
func (t Tree) Below(root Proc) []Proc {
	out := []Proc{root}
	for i := 0; i < len(out); i++ {
		for _, child := range t[out[i].PID] {
			if !child.Zombie || len(t[child.PID]) > 0 {
				out = append(out, child)
			}
		}
	}
	return out
}

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

// ErrChildless says that this process has no child, neither living nor dead.
var ErrChildless = errors.New("no child is left")

// ReapAny collects one child that has ended, without waiting; with stops also one that was stopped, which stays. pid is
// 0 when there is none, and the error wraps [ErrChildless] when there is no child at all. A process that calls it must
// wait for its children in no other way.
func ReapAny(stops bool) (pid int, status unix.WaitStatus, err error) {
	options := unix.WNOHANG
	if stops {
		options |= unix.WUNTRACED
	}
	for {
		pid, err = unix.Wait4(-1, &status, options, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return 0, 0, ErrChildless
		case err != nil:
			return 0, 0, fmt.Errorf("wait for children: %w", err)
		default:
			return max(pid, 0), status, nil
		}
	}
}

// Wait waits for the end of one child, and reaps it.
func Wait(pid int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, fmt.Errorf("wait for process %d: %w", pid, err)
		default:
			return status, nil
		}
	}
}

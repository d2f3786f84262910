package guard

import (
	"github.com/shardctl/shardctl/internal/process"
)

// The variables that mark a task's processes; whatever builds a command's environment sets them.
const (
	envKey     = "SHARDCTL_KEY"
	envSession = "SHARDCTL_SESSION"
)

// marks are what a task's processes carry in their environment.
type marks struct {
	key, session string
}

// marksOf reads what a process carries; false: it carries nothing, or hides it.
func marksOf(pid int) (marks, bool) {
	values := process.Environ(pid, envKey, envSession)
	m := marks{values[0], values[1]}
	return m, m.key != "" && m.session != ""
}

// suspects is what the guard knows of its children when it looks at processes.
type suspects struct {
	guard, worker int
	leaders       map[int]uint64        // a command's process, not reaped yet
	groups        map[int]uint64        // a command's process group
	seen          map[process.ID]uint64 // processes that an earlier survey found to be a command's
	marks         map[marks]uint64      // what its processes carry
	sessions      map[string]bool       // those the worker announced
}

// survey is to whom the guard's children and all below them belong.
type survey struct {
	owned     map[uint64][]process.Proc // by command; zombies only where the guard still has to reap them
	lapsed    []process.Proc            // marked as one of our sessions', and its command is known no more
	stray     []process.Proc            // not marked, or hidden
	uncertain bool                      // a zombie of unknown origin is there: it shows no environment
	err       error
}

// look surveys all processes. Reading another process's memory can hang, so this must not hold up the guard's loop.
//
// It is sound for "nothing is left" when the guard reaped no child meanwhile. A child of the guard that was there at
// the beginning is then there at the end, if only as a zombie. A process that was forked meanwhile has such a child
// above it, or had one that was reaped.
func (s suspects) look() survey {
	if !process.CanFind {
		return s.lookAtGroups()
	}
	all, err := process.All()
	if err != nil {
		return survey{err: err}
	}
	return s.sort(all, marksOf)
}

// lookAtGroups asks of each group whether anything of it is left, where nothing else can be found.
func (s suspects) lookAtGroups() survey {
	out := survey{owned: map[uint64][]process.Proc{}}
	for group, id := range s.groups {
		if !process.GroupEmpty(group) {
			out.owned[id] = append(out.owned[id], process.Proc{PID: -group, Group: group})
		}
	}
	return out
}

// sort attributes processes. Everything below a child of the guard belongs to whom the child belongs to. A child is
// known by being a command's own process, by an earlier survey, by its group, or by its environment, which marksOf
// reads.
func (s suspects) sort(all []process.Proc, marksOf func(pid int) (marks, bool)) survey {
	tree := process.TreeOf(all)
	out := survey{owned: map[uint64][]process.Proc{}}
	for _, root := range tree[s.guard] {
		if root.PID == s.worker {
			continue
		}
		below := tree.Below(root)
		switch owner, ours := s.ownerOf(root, marksOf); {
		case owner != 0:
			out.owned[owner] = append(out.owned[owner], below...)
		case ours:
			out.lapsed = append(out.lapsed, below...)
		default:
			out.stray = append(out.stray, below...)
			out.uncertain = out.uncertain || root.Zombie
		}
	}
	return out
}

// ownerOf names the command that a child of the guard belongs to, zero when there is none. ours says that it carries
// one of our sessions. The environment comes last, since reading another's memory can take its time.
func (s suspects) ownerOf(root process.Proc, marksOf func(pid int) (marks, bool)) (owner uint64, ours bool) {
	if id := s.kinOf(root); id != 0 {
		return id, true
	}
	found, ok := marksOf(root.PID)
	if !ok {
		return 0, false
	}
	return s.marks[found], s.sessions[found.session]
}

// kinOf is ownerOf without the environment: what a look at the process alone shows.
func (s suspects) kinOf(root process.Proc) uint64 {
	if id, ok := s.leaders[root.PID]; ok {
		return id
	}
	if id, ok := s.seen[root.ID()]; ok {
		return id
	}
	return s.groups[root.Group]
}

package guard

import (
	"time"

	"github.com/shardctl/shardctl/internal/process"
)

// The variables that mark a task's processes; whatever builds a command's environment sets them.
const (
	envKey     = "SHARDCTL_KEY"
	envSession = "SHARDCTL_SESSION"
	envToken   = "SHARDCTL_FENCING_TOKEN" //nolint:gosec // G101: a variable's name
)

// marks are what a task's processes carry in their environment. The token tells a run from what an earlier one left.
type marks struct {
	key, session, token string
}

// marksOf reads what a process carries; zero: it carries nothing, or hides it. sure is false while it shows no
// environment, so that nothing is known.
func marksOf(pid int) (m marks, sure bool) {
	values, sure := process.LookEnviron(pid, envKey, envSession, envToken)
	if values[0] == "" || values[1] == "" {
		return marks{}, sure
	}
	return marks{values[0], values[1], values[2]}, true
}

// kin is a child of the guard, and the control group of a run that it is in; empty: none.
type kin struct {
	process.Proc
	cgroup string
}

// root is a child of the guard, with all below it.
type root struct {
	kin
	below  []process.Proc // itself first; zombies only where the guard still has to reap them
	marks  marks
	unsure bool // it showed no environment when it was looked at
}

// walk is what was there when a survey went through all processes.
type walk struct {
	roots  []root
	groups map[int]bool // that are not empty, where nothing else can be found
	reaps  uint64       // children that the guard had reaped when it began
	err    error
}

// suspects is what the guard knows of its children at a moment.
type suspects struct {
	guard, worker int
	leaders       map[int]uint64        // a command's process, not reaped yet
	groups        map[int]uint64        // a command's process group
	cgroups       map[string]uint64     // a command's control group
	seen          map[process.ID]uint64 // processes that an earlier survey found to be a command's
	marks         map[marks]uint64      // what its processes carry
	sessions      map[string]bool       // those the worker announced
	cgroupOf      func(pid int) string  // names the control group of a run
}

// survey is to whom the guard's children and all below them belong.
type survey struct {
	owned     map[uint64][]process.Proc // by command
	lapsed    []process.Proc            // marked as one of our sessions', and its command is known no more
	stray     []process.Proc            // not marked, or hidden
	uncertain bool                      // a zombie of unknown origin is there: it shows no environment
	unsure    bool                      // so does one that lives: it may be any command's
	full      map[uint64]bool           // commands in whose control group something lived after it
	reaps     uint64
	err       error
}

// unsurePatience is how long a survey waits for processes that show no environment. Executing a program takes less.
const unsurePatience = 50 * time.Millisecond

// look walks through all processes. Reading another process's memory can hang, so this must not hold up the guard's
// loop. What is known of a child at the beginning spares reading its environment.
//
// It is sound for "nothing is left" when the guard reaped no child meanwhile. A child of the guard that was there at
// the beginning is then there at the end, if only as a zombie. A process that was forked meanwhile has such a child
// above it, or had one that was reaped.
func (s suspects) look() walk {
	if !process.CanFind {
		return s.lookAtGroups()
	}
	all, err := process.All()
	if err != nil {
		return walk{err: err}
	}
	out := walk{roots: s.rootsOf(all)}
	for i := range out.roots {
		r := &out.roots[i]
		if s.kinOf(r.kin) != 0 {
			continue
		}
		if r.cgroup = s.cgroupOf(r.PID); r.cgroup == "" && !r.Zombie {
			r.look()
		}
	}
	out.wait()
	return out
}

// rootsOf are the guard's children but for its worker.
func (s suspects) rootsOf(all []process.Proc) []root {
	tree := process.TreeOf(all)
	var roots []root
	for _, p := range tree[s.guard] {
		if p.PID != s.worker {
			roots = append(roots, root{kin: kin{Proc: p}, below: tree.Below(p)})
		}
	}
	return roots
}

// look reads what a root carries.
func (r *root) look() {
	var sure bool
	r.marks, sure = marksOf(r.PID)
	r.unsure = !sure
}

// wait looks again at roots that showed no environment, until they do.
func (w *walk) wait() {
	for end := time.Now().Add(unsurePatience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		left := false
		for i := range w.roots {
			if r := &w.roots[i]; r.unsure {
				r.look()
				left = left || r.unsure
			}
		}
		if !left {
			return
		}
	}
}

// lookAtGroups asks of each group whether anything of it is left, where nothing else can be found.
func (s suspects) lookAtGroups() walk {
	out := walk{groups: map[int]bool{}}
	for group := range s.groups {
		out.groups[group] = !process.GroupEmpty(group)
	}
	return out
}

// sort attributes what was there. Everything below a child of the guard belongs to whom the child belongs to. A child
// is known by being a command's own process, by an earlier survey, by its group, by its control group, or by its
// environment.
//
// It is asked when the walk is over: by then each command that was started meanwhile is known. What was known when the
// walk began would make lapsed ones of its processes.
func (s suspects) sort(w walk) survey {
	out := survey{owned: map[uint64][]process.Proc{}, reaps: w.reaps, err: w.err}
	for group, id := range s.groups {
		if w.groups[group] {
			out.owned[id] = append(out.owned[id], process.Proc{PID: -group, Group: group})
		}
	}
	for _, r := range w.roots {
		switch owner, ours := s.ownerOf(r); {
		case owner != 0:
			out.owned[owner] = append(out.owned[owner], r.below...)
		case ours:
			out.lapsed = append(out.lapsed, r.below...)
		case r.unsure:
			out.unsure = true
		default:
			out.stray = append(out.stray, r.below...)
			out.uncertain = out.uncertain || r.Zombie
		}
	}
	return out
}

// ownerOf names the command that a child of the guard belongs to, zero when there is none. ours says that it carries
// one of our sessions.
func (s suspects) ownerOf(r root) (owner uint64, ours bool) {
	if id := s.kinOf(r.kin); id != 0 {
		return id, true
	}
	if r.cgroup != "" {
		return 0, true // it was moved there
	}
	return s.marks[r.marks], s.sessions[r.marks.session]
}

// kinOf is ownerOf without the environment: what a look at the process alone shows.
func (s suspects) kinOf(p kin) uint64 {
	if id, ok := s.leaders[p.PID]; ok {
		return id
	}
	if id, ok := s.seen[p.ID()]; ok {
		return id
	}
	if id, ok := s.groups[p.Group]; ok {
		return id
	}
	return s.cgroups[p.cgroup]
}

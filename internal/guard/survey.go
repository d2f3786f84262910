package guard

// proc is one process as it was seen. pid and start together never name two processes.
type proc struct {
	pid, ppid, group int
	start            uint64 // clock ticks since the boot
	zombie           bool
}

// procID is what names a process for good.
type procID struct {
	pid   int
	start uint64
}

func (p proc) id() procID { return procID{p.pid, p.start} }

// marks are what a task's processes carry in their environment.
type marks struct {
	key, session string
}

// suspects is what the guard knows of its children when it looks through all processes.
type suspects struct {
	guard, worker int
	leaders       map[int]uint64    // a command's process, not reaped yet
	groups        map[int]uint64    // a command's process group
	marks         map[marks]uint64  // what its processes carry
	sessions      map[string]bool   // those the worker told of
	seen          map[procID]uint64 // processes that an earlier survey found to be a command's
}

// survey is whom the guard's children and all below them belong to.
type survey struct {
	owned  map[uint64][]proc // by command; zombies only where the guard still has to reap them
	lapsed []proc            // marked as one of our sessions', and of no command that is known: its command has ended
	stray  []proc            // not marked, or hidden
	err    error
}

// sort attributes processes. Everything below a child of the guard belongs to whom the child belongs to; a child is known
// by being a command's own process, by an earlier survey, by its group, or by its environment, which marksOf reads.
func (s suspects) sort(procs []proc, marksOf func(pid int) (marks, bool)) survey {
	below := map[int][]proc{}
	for _, p := range procs {
		below[p.ppid] = append(below[p.ppid], p)
	}
	out := survey{owned: map[uint64][]proc{}}
	for _, root := range below[s.guard] {
		if root.pid == s.worker {
			continue
		}
		tree := subtree(root, below)
		switch owner, ours := s.ownerOf(root, marksOf); {
		case owner != 0:
			out.owned[owner] = append(out.owned[owner], tree...)
		case ours:
			out.lapsed = append(out.lapsed, tree...)
		default:
			out.stray = append(out.stray, tree...)
		}
	}
	return out
}

// ownerOf names the command that a child of the guard belongs to, zero when there is none; ours says that it carries one
// of our sessions. The environment comes last, since reading another's memory can take its time.
func (s suspects) ownerOf(root proc, marksOf func(pid int) (marks, bool)) (owner uint64, ours bool) {
	if id, ok := s.leaders[root.pid]; ok {
		return id, true
	}
	if id, ok := s.seen[root.id()]; ok {
		return id, true
	}
	if id, ok := s.groups[root.group]; ok {
		return id, true
	}
	found, ok := marksOf(root.pid)
	if !ok {
		return 0, false
	}
	return s.marks[found], s.sessions[found.session]
}

// subtree is root and everything below it, without zombies that somebody else has to reap.
func subtree(root proc, below map[int][]proc) []proc {
	tree := []proc{root}
	for i := 0; i < len(tree); i++ {
		for _, child := range below[tree[i].pid] {
			if !child.zombie || len(below[child.pid]) > 0 {
				tree = append(tree, child)
			}
		}
	}
	return tree
}

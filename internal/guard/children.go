package guard

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/elect"
)

// children reaps what ends below the guard, and lists what is there.
type children struct {
	x         *executor
	collect   func(stops bool) (pid int, status unix.WaitStatus, err error) // process.ReapAny, but for tests
	list      func() ([]int, error)                                         // the guard's own
	childless bool                                                          // the last wait found no child at all
	stops     bool                                                          // it looks for children that were stopped, too
	stopped   bool                                                          // a command was, since takeStopped
}

// A task may leave thousands of processes. What the loop does of them in one turn is bounded, so that the worker hears
// of the guard in between.
const (
	maxReaped = 256 // children collected
	maxLooked = 256 // children looked at: where there are more the scan finds out, beside the loop
)

// reap collects children that have ended, its own and those that came to it as orphans. Then it lists those it still
// has. Between the two nothing is reaped, so that the list is exact. more says that it is to be called again at once.
func (c *children) reap() (more bool) {
	commands := c.x.core.commands
	for n := 0; ; n++ {
		if n == maxReaped {
			return true
		}
		pid, status, err := c.collect(c.stops)
		c.childless = errors.Is(err, process.ErrChildless)
		if err != nil || pid == 0 {
			break
		}
		switch {
		case status.Stopped():
			c.stopped = c.stopped || commands.isCommand(pid)
		case pid == c.x.worker:
			c.x.do(c.x.core.shutdown.workerExited(status, wire.Now()))
		default:
			c.x.do(commands.reaped(pid, status, wire.Now()))
		}
	}
	ended, wanted := commands.wantsChildList()
	if !wanted {
		return false
	}
	pids, err := c.list()
	if err != nil {
		return false // there is no such list here: the scan that is due finds out
	}
	if pids = slices.DeleteFunc(pids, commands.isCommand); len(pids) <= maxLooked {
		c.x.do(commands.listed(c.lookAt(pids, ended)))
	}
	return false
}

// lookAt looks at the guard's children that are no commands, and at the groups of commands that have ended.
func (c *children) lookAt(pids []int, ended []*command) childList {
	l := childList{populated: c.x.populated(ended)}
	for _, pid := range pids {
		if pid == c.x.worker {
			continue
		}
		p, ok := process.Read(pid)
		if !ok {
			p = process.Proc{PID: pid} // it cannot be seen, but is not gone
		}
		l.strangers = append(l.strangers, child{p, c.x.cgroups.of(pid)})
	}
	for _, e := range ended {
		l.populated[e.id] = l.populated[e.id] || !process.GroupEmpty(e.pid)
	}
	return l
}

// takeStopped says whether a command was stopped since the last call.
func (c *children) takeStopped() bool {
	stopped := c.stopped
	c.stopped = false
	return stopped
}

// nothingLeft says whether every process but the guard is gone. A subreaper without children has nothing below it
// either.
func (c *children) nothingLeft() bool {
	return c.x.core.shutdown.worker.isOver() && c.childless && (process.CanFind || len(c.x.core.commands.byID) == 0)
}

// child is a child of the guard, and the control group of a run that it is in; empty: none.
type child struct {
	process.Proc

	cgroup string
}

// childTree is a child of the guard, with all below it.
type childTree struct {
	child

	below     []process.Proc // itself first; zombies only where the guard still has to reap them
	marks     wire.Marks
	noEnviron bool // it showed no environment when it was looked at
}

// procScan is what was there when a scan went through all processes.
type procScan struct {
	trees  []childTree
	groups map[int]bool // that are not empty, where nothing else can be found
	reaps  uint64       // children that the guard had reaped when it began
	err    error
}

// knownProcs is what the guard knows of its children at a moment, each by the command that it belongs to.
type knownProcs struct {
	guard, worker int
	commands      map[int]uint64        // a command's process, not reaped yet
	groups        map[int]uint64        // a command's process group
	cgroups       map[string]uint64     // a command's control group
	seen          map[process.ID]uint64 // processes that an earlier scan found to be a command's
	marks         map[wire.Marks]uint64 // what its processes carry
	sessions      map[string]bool       // those the worker announced
	cgroupOf      func(pid int) string  // names the control group of a run
}

// ownership is to whom the guard's children and all below them belong.
type ownership struct {
	owned         map[uint64][]process.Proc // by command
	ownerless     []process.Proc            // marked as one of our sessions', and its command is known no more
	stray         []process.Proc            // not marked, or hidden
	unknownZombie bool                      // a zombie of unknown origin is there: it shows no environment
	noEnviron     bool                      // so does one that lives: it may be any command's
	populated     map[uint64]bool           // commands in whose control group something lived after the scan
	reaps         uint64
	err           error
}

// environPatience is how long a scan waits for processes that show no environment. Executing a program takes less.
const environPatience = 50 * time.Millisecond

// scan goes through all processes. Reading another process's memory can hang, so this must not hold up the guard's
// loop. What is known of a child at the beginning spares reading its environment.
//
// It is sound for "nothing is left" when the guard reaped no child meanwhile. A child of the guard that was there at
// the beginning is then there at the end, if only as a zombie. A process that was forked meanwhile has such a child
// above it, or had one that was reaped.
func (k knownProcs) scan() procScan {
	if !process.CanFind {
		return k.scanGroups()
	}
	all, err := process.All()
	if err != nil {
		return procScan{err: err}
	}
	out := procScan{trees: k.treesOf(all)}
	for i := range out.trees {
		t := &out.trees[i]
		if k.ownerOf(t.child) != 0 {
			continue
		}
		if t.cgroup = k.cgroupOf(t.PID); t.cgroup == "" && !t.Zombie {
			t.readMarks()
		}
	}
	out.awaitEnvirons()
	return out
}

// treesOf are the guard's children but for its worker.
func (k knownProcs) treesOf(all []process.Proc) []childTree {
	tree := process.TreeOf(all)
	var trees []childTree
	for _, p := range tree[k.guard] {
		if p.PID != k.worker {
			trees = append(trees, childTree{child: child{Proc: p}, below: tree.Below(p)})
		}
	}
	return trees
}

// readMarks reads what a child carries.
func (t *childTree) readMarks() {
	var sure bool
	t.marks, sure = wire.MarksOf(t.PID)
	t.noEnviron = !sure
}

// awaitEnvirons reads again what showed no environment, until it does.
func (s *procScan) awaitEnvirons() {
	for end := time.Now().Add(environPatience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		left := false
		for i := range s.trees {
			if t := &s.trees[i]; t.noEnviron {
				t.readMarks()
				left = left || t.noEnviron
			}
		}
		if !left {
			return
		}
	}
}

// scanGroups asks of each group whether anything of it is left, where nothing else can be found.
func (k knownProcs) scanGroups() procScan {
	out := procScan{groups: map[int]bool{}}
	for group := range k.groups {
		out.groups[group] = !process.GroupEmpty(group)
	}
	return out
}

// attribute finds the owners of what was there. Everything below a child of the guard belongs to whom the child belongs
// to. A child is known by being a command's own process, by an earlier scan, by its group, by its control group, or by
// its environment.
//
// It is called when the scan is over: by then each command that was started meanwhile is known. By what was known when
// the scan began its processes would be ownerless.
func (k knownProcs) attribute(s procScan) ownership {
	out := ownership{owned: map[uint64][]process.Proc{}, reaps: s.reaps, err: s.err}
	for group, id := range k.groups {
		if s.groups[group] {
			out.owned[id] = append(out.owned[id], process.Proc{PID: -group, Group: group})
		}
	}
	for _, t := range s.trees {
		switch owner, ours := k.ownerOfTree(t); {
		case owner != 0:
			out.owned[owner] = append(out.owned[owner], t.below...)
		case ours:
			out.ownerless = append(out.ownerless, t.below...)
		case t.noEnviron:
			out.noEnviron = true
		default:
			out.stray = append(out.stray, t.below...)
			out.unknownZombie = out.unknownZombie || t.Zombie
		}
	}
	return out
}

// ownerOfTree names the command that a child of the guard belongs to, zero when there is none. ours says that it
// carries one of our sessions.
func (k knownProcs) ownerOfTree(t childTree) (owner uint64, ours bool) {
	if id := k.ownerOf(t.child); id != 0 {
		return id, true
	}
	if t.cgroup != "" {
		return 0, true // it was moved there
	}
	return k.marks[t.marks], k.sessions[t.marks.Session]
}

// ownerOf is ownerOfTree without the environment: what the process alone shows.
func (k knownProcs) ownerOf(p child) uint64 {
	if id, ok := k.commands[p.PID]; ok {
		return id
	}
	if id, ok := k.seen[p.ID()]; ok {
		return id
	}
	if id, ok := k.groups[p.Group]; ok {
		return id
	}
	return k.cgroups[p.cgroup]
}

// usage is the processor time of the commands: that of their control groups, which are below dir. Of a command without
// one, its processes that live count, and those that these have waited for. The sum falls when an orphan ends.
func (k knownProcs) usage(dir process.Cgroup) []wire.Usage {
	used := map[uint64]time.Duration{}
	for name, id := range k.cgroups {
		if cpu, err := dir.Child(name).CPU(); err == nil {
			used[id] = cpu
		}
	}
	if len(used) < len(k.marks) {
		k.addProcesses(used)
	}
	var commands []wire.Usage
	for m, id := range k.marks {
		if cpu, ok := used[id]; ok {
			commands = append(commands, wire.Usage{ID: id, Key: elect.Key(m.Key), CPU: cpu})
		}
	}
	return commands
}

// addProcesses adds the commands that are not in used, by their processes.
func (k knownProcs) addProcesses(used map[uint64]time.Duration) {
	for id, procs := range k.attribute(k.scan()).owned {
		if _, known := used[id]; known {
			continue
		}
		for _, p := range procs {
			used[id] += p.CPU
		}
	}
}

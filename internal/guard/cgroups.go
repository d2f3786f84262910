package guard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
)

// cgroups are the control groups of this guard's runs: one each, below one of the guard's own.
//
//	the group that the guard was started in
//	  └── shardctl-guard.INSTANCE.NUMBER   locked (flock) for as long as the guard lives
//	        └── ID.TOKEN.KEY               a run
//
// With them no search is needed. A run's process cannot leave its group by forking, by another process group or
// session, or by another environment. One write kills all of it. It is gone when the kernel says that the group is not
// populated.
//
// A process can be moved to another group, as systemd-run --scope does. Any process with the guard's rights may do so.
// So two are asked before a run is gone: its group, and the guard's own children. A child that is in no run's group was
// moved, or its run got none. Only then do environments count, as where there are no groups. Where no such child is
// there nothing can have been moved, and nothing is waited for.
//
// The lock says whether the guard of a group lives, also across PID namespaces. A group without it was left by a guard
// that was killed: the next one that starts beside it ends and removes that. The file system is the only record of it.
type cgroups struct {
	journal *journal
	dir     process.Cgroup // holds those of the runs; empty: none was made
	name    string         // what /proc/PID/cgroup calls it
	lock    *os.File
	off     bool // no further run gets one
	watcher *fsnotify.Watcher
	changes <-chan fsnotify.Event // whether something lives in a run's group; nil: there is no notification
	lost    <-chan error          // so many that some were lost
	left    map[string]bool       // could not be removed yet
}

// leftovers is how long a guard waits for the end of what an earlier one left. It has been killed by then.
const leftovers = time.Second

// guardGroup is what guards call their groups. The names of systemd's units never end in a number.
var guardGroup = regexp.MustCompile(`^shardctl-guard\.(.*\.)?[0-9]+$`)

// openCgroups ends what guards that were killed left here, and makes this one's group. Where that may not be, runs get
// none, and their processes are found by looking at all of them.
func openCgroups(cfg Config, j *journal) *cgroups {
	g := &cgroups{journal: j, off: true, left: map[string]bool{}}
	if cfg.noCgroups {
		return g
	}
	parent, name, err := process.OwnCgroup()
	if err == nil {
		g.sweep(parent)
		err = g.make(parent, name, cfg.Name)
	}
	if err != nil {
		text := "Tasks get no control groups here: their processes are looked for"
		g.journal.add(note{level: levelDebug, text: text, values: []any{"error", err.Error()}})
		return g
	}
	g.off = false
	text := "Each task gets a control group"
	g.journal.add(note{level: levelDebug, text: text, values: []any{"dir", string(g.dir)}})
	return g
}

// sweep kills what is left in the groups of guards that have died, and removes these groups.
func (g *cgroups) sweep(parent process.Cgroup) {
	entries, err := os.ReadDir(string(parent))
	if err != nil {
		return // then none can be made either
	}
	for _, e := range entries {
		if !e.IsDir() || !guardGroup.MatchString(e.Name()) {
			continue
		}
		old := parent.Child(e.Name())
		lock, err := lockGroup(old)
		if err != nil {
			continue // its guard lives, or it is another user's
		}
		found := old.Populated()
		err = end(old, leftovers)
		_ = lock.Close()
		switch values := []any{"dir", string(old)}; {
		case err != nil:
			values = append(values, "error", err.Error())
			g.journal.add(note{level: levelError, text: "What an earlier guard left does not end", values: values})
		case found:
			g.journal.add(note{text: "Ended what an earlier guard left", values: values})
		}
	}
}

// end kills what is in a group, waits for that, and removes the group.
func end(group process.Cgroup, limit time.Duration) error {
	if err := group.Kill(); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	group.AwaitEmpty(limit)
	return group.Remove()
}

// lockGroup locks a group, unless a guard has it.
func lockGroup(group process.Cgroup) (*os.File, error) {
	f, err := os.Open(string(group))
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil { // it may have been another's to remove between the two
		var now, then os.FileInfo
		if now, err = os.Stat(string(group)); err == nil {
			if then, err = f.Stat(); err == nil && !os.SameFile(now, then) {
				err = os.ErrNotExist
			}
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock control group %s: %w", group, err)
	}
	return f, nil
}

// make creates the guard's group. Only creating, locking and killing one shows whether that is allowed.
func (g *cgroups) make(parent process.Cgroup, name, instance string) error {
	// A child may only start in a group when its own and what is above both can be written to.
	if err := unix.Access(string(parent.Child("cgroup.procs")), unix.W_OK); err != nil {
		return fmt.Errorf("write to %s: %w", parent, err)
	}
	pattern := "shardctl-guard."
	if instance != "" {
		pattern += plain(instance) + "."
	}
	for range 10 { // another guard that starts may take a group that is not locked yet for one that was left
		dir, err := os.MkdirTemp(string(parent), pattern+"*")
		if err != nil {
			return fmt.Errorf("make a control group: %w", err)
		}
		group := process.Cgroup(dir)
		lock, err := lockGroup(group)
		if err != nil {
			continue
		}
		if err := group.Kill(); err != nil {
			_ = group.Remove()
			_ = lock.Close()
			return err
		}
		g.dir, g.name, g.lock = group, filepath.Join(name, filepath.Base(dir)), lock
		if watcher, err := fsnotify.NewWatcher(); err == nil { // else scans find out, a little later
			g.watcher, g.changes, g.lost = watcher, watcher.Events, watcher.Errors
		}
		return nil
	}
	return errors.New("make a control group: others remove it")
}

// start has a run start in a group of its own, whose name it returns; without one where that may not be.
func (g *cgroups) start(b wire.Start, spec process.Spec, spawner *process.Spawner) (pid int, name string, err error) {
	dir, name := g.open(b)
	if dir == nil {
		pid, err = spawner.Start(spec)
		return pid, "", err
	}
	defer func() { _ = dir.Close() }()
	within := spec
	within.Cgroup = dir
	if pid, err = spawner.Start(within); err == nil {
		return pid, name, nil
	}
	g.remove(name)
	if !process.RefusedCgroup(err) {
		return 0, "", err
	}
	why := err // or the program's
	if pid, err = spawner.Start(spec); err == nil {
		g.giveUp(why)
	}
	return pid, "", err
}

// open makes a run's group. The directory is nil where it gets none.
func (g *cgroups) open(b wire.Start) (dir *os.File, name string) {
	if g.off {
		return nil, ""
	}
	name = fmt.Sprintf("%d.%d.%s", b.ID, b.Token, plain(string(b.Key)))
	group := g.dir.Child(name)
	err := os.Mkdir(string(group), 0o700)
	if err == nil {
		if dir, err = os.Open(string(group)); err == nil {
			if g.watcher != nil {
				_ = g.watcher.Add(group.Events()) // else scans find out
			}
			return dir, name
		}
		_ = group.Remove()
	}
	g.giveUp(err)
	return nil, ""
}

// giveUp says once why the runs to come get no groups. Those that have one keep it.
func (g *cgroups) giveUp(err error) {
	g.off = true
	text := "Tasks get no control groups any more: their processes are looked for"
	g.journal.add(note{text: text, values: []any{"error", err.Error()}})
}

// of names the run's group that a process is in; empty: none, or it cannot be seen.
func (g *cgroups) of(pid int) string {
	if g.dir == "" {
		return ""
	}
	below, ok := strings.CutPrefix(process.CgroupOf(pid), g.name+"/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(below, "/") // a task may have made groups of its own in there
	return name
}

// kill kills all that is in a run's group.
func (g *cgroups) kill(name string) { _ = g.dir.Child(name).Kill() } // fails once it is removed

// populated says whether something lives in a run's group; false where it has none.
func (g *cgroups) populated(name string) bool { return name != "" && g.dir.Child(name).Populated() }

// remove removes the group of a run that is gone, now or later.
func (g *cgroups) remove(name string) {
	if name == "" {
		return
	}
	if g.watcher != nil {
		_ = g.watcher.Remove(g.dir.Child(name).Events()) // it does not go with the file
	}
	g.left[name] = true
	for old := range g.left {
		if g.dir.Child(old).Remove() == nil {
			delete(g.left, old)
		}
	}
}

// close removes the guard's group. Where a process in it does not die, the next guard here removes it.
func (g *cgroups) close() {
	if g.dir == "" {
		return
	}
	if g.watcher != nil {
		_ = g.watcher.Close()
	}
	_ = g.dir.Remove()
	_ = g.lock.Close()
}

// plain replaces what a file name may not contain by underscores.
func plain(text string) string {
	safe := strings.Map(func(r rune) rune {
		if r < 128 && (r == '-' || r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r|32 && r|32 <= 'z') {
			return r
		}
		return '_'
	}, text)
	return safe[:min(len(safe), 128)]
}

package dev

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/pkg/api"
)

// changes says in lines what is new in each view. It reads no clock and starts nothing; it belongs to one goroutine.
type changes struct {
	begun    time.Time
	prev     *View
	reported map[string]bool   // replicas whose start was reported
	owners   map[string]string // who owned a key last
	moves    map[string]int    // by replica: gained less lost, not reported yet
	moved    int
	losses   []*loss
	still    int    // views since an owner or a state changed
	spread   string // reported last
	ran      bool   // that all runs was reported once
	problems map[string]*trouble
}

// loss is a replica whose tasks have to run elsewhere.
type loss struct {
	name  string
	since time.Time
	keys  map[string]bool
}

type trouble struct {
	since    time.Time
	reported bool
}

const (
	// lossLimit ends the waiting for tasks that find no free capacity.
	lossLimit = 10 * time.Second
	// troubleAge keeps quiet what passes by itself, as it does whenever somebody comes or goes.
	troubleAge = time.Second
	// stillViews are as many equal views as make a spread worth reporting.
	stillViews = 2
)

func newChanges(begun time.Time) *changes {
	return &changes{
		begun: begun, prev: &View{}, reported: map[string]bool{}, owners: map[string]string{}, moves: map[string]int{},
		problems: map[string]*trouble{},
	}
}

// step takes the next view and returns what is new in it, a line each.
func (c *changes) step(v *View) []string {
	var lines []string
	before := map[string]Replica{}
	for _, r := range c.prev.Replicas {
		before[r.Name] = r
	}
	for _, r := range v.Replicas {
		if line := c.replica(before[r.Name], r, v); line != "" {
			lines = append(lines, line)
		}
		if line := application(before[r.Name].App, r); line != "" {
			lines = append(lines, line)
		}
	}
	c.compare(v)
	lines = append(lines, c.settledLosses(v)...)
	lines = append(lines, c.settled(v)...)
	lines = append(lines, c.troubles(v)...)
	c.prev = v
	return lines
}

func (c *changes) replica(before, r Replica, v *View) string {
	was := before.State
	if was.Gone() && !r.State.Gone() { // started again: what it lost may come back to it
		delete(c.reported, r.Name)
		c.losses = slices.DeleteFunc(c.losses, func(l *loss) bool { return l.name == r.Name })
	}
	switch {
	case before.Again && r.State == Dead && !r.Again:
		return fmt.Sprintf("%s cannot be started again: %s", r.Name, r.Why)
	case r.State == Live && !c.reported[r.Name]:
		c.reported[r.Name] = true
		return fmt.Sprintf("%s started: %s", r.Name, processes(r))
	case r.State == was:
		return ""
	}
	switch r.State {
	case Leaving:
		c.lose(r.Name, v.Now)
		return r.Name + " hands its tasks over"
	case Silent:
		c.lose(r.Name, v.Now)
		return fmt.Sprintf("%s sends no heartbeat and is abandoned (%s)", r.Name, processes(r))
	case Live:
		if was == Silent {
			return r.Name + " is back"
		}
	case Dead:
		c.lose(r.Name, r.Ended)
		if r.Again {
			return fmt.Sprintf("%s died: %s; it is started again in %v", r.Name, r.Why, restartPause)
		}
		return fmt.Sprintf("%s died: %s", r.Name, r.Why)
	case Left:
		c.lose(r.Name, r.Ended)
		return r.Name + " left"
	case Starting:
	}
	return ""
}

// application says when the one beside a replica is ready, and when it is no longer. That of a replica that has ended
// is not worth a line.
func application(was *api.Application, r Replica) string {
	ready := was != nil && was.Ready
	switch is := r.App; {
	case is == nil:
		return ""
	case is.Ready && (!ready || is.ID != was.ID):
		return fmt.Sprintf("the application of %s is ready: pid %d", r.Name, is.PID)
	case !is.Ready && ready:
		return fmt.Sprintf("the application of %s is not ready: %s", r.Name, is.Message)
	}
	return ""
}

func processes(r Replica) string {
	if r.Worker == 0 {
		return fmt.Sprintf("guard %d", r.Guard)
	}
	return fmt.Sprintf("guard %d, worker %d", r.Guard, r.Worker)
}

// lose notes that everything the replica owned has to run elsewhere.
func (c *changes) lose(name string, since time.Time) {
	if slices.ContainsFunc(c.losses, func(l *loss) bool { return l.name == name }) {
		return
	}
	keys := map[string]bool{}
	for key, owner := range c.owners {
		if owner == name {
			keys[key] = true
		}
	}
	if len(keys) > 0 {
		c.losses = append(c.losses, &loss{name, since, keys})
	}
}

func (c *changes) lost(key string) bool {
	return slices.ContainsFunc(c.losses, func(l *loss) bool { return l.keys[key] })
}

// compare counts moves.
func (c *changes) compare(v *View) {
	same := len(v.Tasks) == len(c.prev.Tasks)
	for i, t := range v.Tasks {
		same = same && t == c.prev.Tasks[i]
		last := c.owners[t.Key]
		if t.Owner == "" || t.Owner == last {
			continue
		}
		c.owners[t.Key] = t.Owner
		if last != "" && !c.lost(t.Key) {
			c.moves[last]--
			c.moves[t.Owner]++
			c.moved++
		}
	}
	c.still++
	if !same {
		c.still = 0
	}
}

func (c *changes) settledLosses(v *View) []string {
	var lines []string
	gone := v.gone()
	c.losses = slices.DeleteFunc(c.losses, func(l *loss) bool {
		run, full := 0, 0
		for _, t := range v.Tasks {
			switch {
			case !l.keys[t.Key]:
			case t.State == api.Running && t.Owner != l.name && !gone[t.Owner]:
				run++
			case t.Full:
				full++
			}
		}
		took := v.Now.Sub(l.since)
		switch {
		case run == len(l.keys):
			lines = append(
				lines, fmt.Sprintf("%s of %s run elsewhere after %.1f s", tasks(run), l.name, took.Seconds()),
			)
		case run+full == len(l.keys) && c.still >= stillViews-1:
			lines = append(lines, fmt.Sprintf(
				"%d of %s of %s run elsewhere, there is no free capacity for %d", run, tasks(len(l.keys)), l.name, full,
			))
		case took > lossLimit:
			lines = append(lines, fmt.Sprintf("%d of %s of %s run elsewhere, the rest does not after %.0f s",
				run, tasks(len(l.keys)), l.name, took.Seconds()))
		default:
			return false
		}
		return true
	})
	return lines
}

// settled reports moves and the spread once nothing changes any more.
func (c *changes) settled(v *View) []string {
	if c.still < stillViews-1 || len(c.losses) > 0 || !v.Seen {
		return nil
	}
	for _, t := range v.Tasks {
		if t.State != api.Running && t.State != api.Unassigned && t.State != api.Paused {
			return nil
		}
	}
	var lines []string
	if c.moved > 0 && c.spread != "" { // at the start everything moves until all are there
		lines = append(lines, fmt.Sprintf("%s moved: %s", tasks(c.moved), signed(c.moves)))
	}
	c.moves, c.moved = map[string]int{}, 0
	if spread := c.spreadOf(v); spread != c.spread && len(v.Tasks) > 0 {
		c.spread = spread
		line := fmt.Sprintf("%d of %s run: %s", v.Running(), tasks(v.Options.Tasks), spread)
		if !c.ran && v.Running() == v.Options.Tasks {
			c.ran = true
			line += fmt.Sprintf(" (%.1f s after the start)", v.Now.Sub(c.begun).Seconds())
		}
		lines = append(lines, line)
	}
	return lines
}

// manyReplicas are too many to name in a line.
const manyReplicas = 10

func (c *changes) spreadOf(v *View) string {
	var parts []string
	low, high := v.Options.Tasks, 0
	for _, r := range v.Replicas {
		if r.State != Live {
			continue
		}
		owned, _ := v.Owned(r.Name)
		low, high = min(low, owned), max(high, owned)
		parts = append(parts, fmt.Sprintf("%s %d", r.Name, owned))
	}
	switch {
	case len(parts) == 0:
		return "no replica lives"
	case len(parts) > manyReplicas && low == high:
		return fmt.Sprintf("%d on each of %d replicas", low, len(parts))
	case len(parts) > manyReplicas:
		return fmt.Sprintf("%d to %d on each of %d replicas", low, high, len(parts))
	}
	return strings.Join(parts, ", ")
}

func (c *changes) troubles(v *View) []string {
	var lines []string
	now := map[string]bool{}
	for _, p := range v.Problems {
		now[p.Reason] = true
		t := c.problems[p.Reason]
		if t == nil {
			t = &trouble{since: v.Now}
			c.problems[p.Reason] = t
		}
		if !t.reported && v.Now.Sub(t.since) >= troubleAge {
			t.reported = true
			lines = append(lines, "problem "+p.String())
		}
	}
	for _, p := range c.prev.Problems {
		if t := c.problems[p.Reason]; t != nil && !now[p.Reason] {
			delete(c.problems, p.Reason)
			if t.reported {
				lines = append(lines, "no longer "+p.Reason)
			}
		}
	}
	return lines
}

// String is the problem in one line.
func (p Problem) String() string {
	if p.Count > 1 {
		return fmt.Sprintf("%s: %s (and %d more)", p.Reason, p.Text, p.Count-1)
	}
	return p.Reason + ": " + p.Text
}

// signed lists gains and losses in the order of numbers.
func signed(counts map[string]int) string {
	var names, parts []string
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, name := range names {
		if n := counts[name]; n != 0 {
			parts = append(parts, fmt.Sprintf("%s %+d", name, n))
		}
	}
	if len(parts) == 0 {
		return "an exchange"
	}
	return strings.Join(parts, ", ")
}

func tasks(n int) string { return cli.Count(n, "task") }

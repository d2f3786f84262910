package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/printable"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// live is a cluster as `status -w` follows it. It has one owner, which applies the changes that arrive.
type live struct {
	status    *api.Status             // nil until the first message
	instances map[string]api.Instance // by session: a name may have a dead one next to one that lives
	events    []api.Event             // oldest first, at most keptEvents
	listed    bool                    // instances have been listed
	begun     bool                    // events have been
}

// keptEvents is how many events a live screen may show.
const keptEvents = 100

// shown are the instances to show, by name: those that left in order are of no interest.
func (l *live) shown() []api.Instance {
	list := make([]api.Instance, 0, len(l.instances))
	for id := range l.instances {
		if i := l.instances[id]; i.State != api.Left {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b api.Instance) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Session, b.Session))
	})
	return list
}

func (l *live) ofInstances(c *client.Change[api.Instance]) {
	if c.Kind == client.Snapshot || l.instances == nil {
		l.instances, l.listed = map[string]api.Instance{}, true
	}
	for i := range c.Items {
		if id := cmp.Or(c.Items[i].Session, c.Items[i].Name); c.Kind == client.Delete {
			delete(l.instances, id)
		} else {
			l.instances[id] = c.Items[i]
		}
	}
}

// ofEvents keeps what happened, and returns what has happened since events were listed first.
func (l *live) ofEvents(c *client.Change[api.Event]) []api.Event {
	items := slices.Clone(c.Items)
	if c.Kind == client.Snapshot {
		slices.Reverse(items) // the newest last
	}
	var last string
	if len(l.events) > 0 {
		last = l.events[len(l.events)-1].ID
	}
	known := map[string]bool{} // one that arrives late has a smaller id than the last
	for i := range l.events {
		known[l.events[i].ID] = true
	}
	items = slices.DeleteFunc(items, func(e api.Event) bool {
		return known[e.ID] || c.Kind == client.Snapshot && e.ID <= last
	})
	l.events = append(l.events, items...)
	l.events = l.events[max(0, len(l.events)-keptEvents):]
	if !l.begun {
		l.begun = true
		return nil
	}
	return items
}

// step is a change on its way to who owns the [live].
type step func(*live) []api.Event

// watchLive passes on changes until ctx ends or the first connection fails.
func watchLive(ctx context.Context, c *client.Client, link *link, changes chan<- step) error {
	g, ctx := errgroup.WithContext(ctx)
	send := func(u step) error {
		select {
		case changes <- u:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g.Go(func() error {
		return ended(ctx, c.WatchStatus(ctx, link.options(client.Filter{}), func(s *api.Status) error {
			if err := link.heard(s); err != nil {
				return err
			}
			return send(func(l *live) []api.Event { l.status = s; return nil })
		}))
	})
	g.Go(func() error {
		handle := func(change client.Change[api.Instance]) error {
			return send(func(l *live) []api.Event { l.ofInstances(&change); return nil })
		}
		return ended(ctx, c.Instances().Watch(ctx, link.options(client.Filter{}), handle))
	})
	g.Go(func() error {
		handle := func(change client.Change[api.Event]) error {
			return send(func(l *live) []api.Event { return l.ofEvents(&change) })
		}
		return ended(ctx, c.Events().Watch(ctx, link.patient(), handle))
	})
	return g.Wait()
}

// display shows a live cluster.
type display interface {
	// show is called after each change, with the events that came with it, and now and then.
	show(l *live, happened []api.Event) error
	close()
}

// livePace bounds how often a screen is drawn; ages on it move at least each second.
const livePace = time.Second

// followStatus shows the cluster and how it changes, until ctx ends: as a screen on a terminal, as lines elsewhere.
func (g *Globals) followStatus(ctx context.Context, c *client.Client, w, note io.Writer) error {
	link := &link{globals: g, url: c.BaseURL(), note: note}
	var d display = &liveLines{globals: g, w: w}
	if terminal(w) {
		link.note = nil // the screen says it
		d = &liveScreen{OpenScreen(w), g, link}
	}
	defer d.close()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	changes, ended := make(chan step), make(chan error, 1)
	go func() { ended <- watchLive(ctx, c, link, changes) }()
	err := showLive(ctx, d, changes, ended)
	cancel()
	if failed := <-ended; err == nil {
		err = failed
	}
	return err
}

// showLive applies changes and has them shown until watching has ended, or ctx.
func showLive(ctx context.Context, d display, changes <-chan step, ended chan error) error {
	var state live
	tick := time.NewTicker(livePace)
	defer tick.Stop()
	for {
		var happened []api.Event
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			ended <- nil
			return err
		case change := <-changes:
			happened = change(&state)
		case <-tick.C:
		}
		if state.status == nil || !state.listed {
			continue
		}
		if err := d.show(&state, happened); err != nil {
			return err
		}
	}
}

// liveLines prints the screen once, and then a line for each change.
type liveLines struct {
	globals   *Globals
	w         io.Writer
	status    *api.Status // as it was printed
	instances map[string]api.Instance
	problems  map[string]api.Problem
}

func (d *liveLines) close() {}

func (d *liveLines) show(l *live, happened []api.Event) error {
	v := d.globals.View(d.w)
	var out strings.Builder
	if d.status == nil {
		if err := writeStatus(&out, v, l.status, l.shown()); err != nil {
			return err
		}
		out.WriteByte('\n')
		d.problems = problemsOf(l.status)
	} else {
		for i := range happened {
			d.line(&out, happened[i].Time.Time, eventText(&happened[i]))
		}
		d.groups(&out, v.Now, l.status)
		d.difficulties(&out, v.Now, l.status)
	}
	d.ofInstances(&out, v.Now, l)
	d.status = l.status
	if out.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(d.w, out.String())
	return err
}

func (d *liveLines) line(out *strings.Builder, at time.Time, text string) {
	if at.IsZero() {
		at = d.globals.now()
	}
	fmt.Fprintf(out, "%s %s\n", at.In(d.globals.now().Location()).Format(time.TimeOnly), printable.Line(text))
}

// groups says how the tasks of groups are now, where that has changed.
func (d *liveLines) groups(out *strings.Builder, now time.Time, s *api.Status) {
	before := map[string]string{}
	for i := range d.status.Groups {
		before[d.status.Groups[i].Name] = groupText(&d.status.Groups[i])
	}
	for i := range s.Groups {
		text := groupText(&s.Groups[i])
		if before[s.Groups[i].Name] != text {
			d.line(out, now, fmt.Sprintf("group %s: %s", s.Groups[i].Name, text))
		}
	}
}

// difficulties says which problems are new, or say something else, and which are over.
func (d *liveLines) difficulties(out *strings.Builder, now time.Time, s *api.Status) {
	current := problemsOf(s)
	for i := range s.Problems {
		p := &s.Problems[i]
		if d.problems[problemID(p)].Message != p.Message {
			d.line(
				out, now,
				strings.Join(strings.Fields(fmt.Sprintf("problem %s %s", p.Reason, about(p))), " ")+": "+p.Message,
			)
		}
	}
	for i := range d.status.Problems {
		p := &d.status.Problems[i]
		if _, still := current[problemID(p)]; !still {
			d.line(out, now, strings.TrimSpace(fmt.Sprintf("problem over: %s %s", p.Reason, about(p))))
		}
	}
	d.problems = current
}

func problemID(p *api.Problem) string {
	return strings.Join([]string{p.Reason, p.Group, p.Task, p.Instance}, "\x00")
}

func problemsOf(s *api.Status) map[string]api.Problem {
	all := make(map[string]api.Problem, len(s.Problems))
	for i := range s.Problems {
		all[problemID(&s.Problems[i])] = s.Problems[i]
	}
	return all
}

// ofInstances says which instances are in another state than before.
func (d *liveLines) ofInstances(out *strings.Builder, now time.Time, l *live) {
	plain, begun := View{}, d.instances != nil
	for _, id := range slices.Sorted(maps.Keys(l.instances)) {
		i, before := l.instances[id], d.instances[id]
		state := plain.stateOf(&i)
		if !begun || before.Name != "" && plain.stateOf(&before) == state {
			continue
		}
		text := fmt.Sprintf("instance %s: %s", i.Name, state)
		if i.Message != "" {
			text += ", " + i.Message
		}
		d.line(out, now, text)
	}
	for _, id := range slices.Sorted(maps.Keys(d.instances)) {
		if _, still := l.instances[id]; !still {
			d.line(out, now, fmt.Sprintf("instance %s: gone", d.instances[id].Name))
		}
	}
	d.instances = maps.Clone(l.instances)
}

// groupText is a group in a few words: "98 of 100 running, 1 starting, 1 unassigned".
func groupText(g *api.Group) string {
	text := fmt.Sprintf("%d of %d running", g.Running, g.Tasks)
	if rest := others(g, api.Running); rest != "" {
		text += ", " + rest
	}
	return text
}

// eventText is what happened in a sentence.
func eventText(e *api.Event) string {
	why := reasonText(e.Reason, e.Message)
	if e.By != "" {
		why = strings.TrimSpace(why + " by " + e.By)
	}
	var text string
	switch {
	case e.Type == record.EventMoved && e.From == "":
		text = fmt.Sprintf("%s claimed by %s", e.Key, e.To)
	case e.Type == record.EventMoved:
		text = fmt.Sprintf("%s moved from %s to %s", e.Key, e.From, e.To)
	case e.Type == record.EventReleased:
		text = fmt.Sprintf("%s released by %s", e.Key, e.From)
	case e.Type == record.EventDied:
		text = fmt.Sprintf("instance %s died", e.From)
	default:
		text = strings.Join(strings.Fields(strings.Join([]string{e.Type, e.Key, e.From, e.To}, " ")), " ")
	}
	if why != "" {
		text += ": " + why
	}
	return text
}

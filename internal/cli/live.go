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

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// live is a cluster as `status -w` follows it. It has one owner, which applies the changes that arrive.
type live struct {
	status    *api.Status             // nil until the first message
	instances map[string]api.Instance // by session: a name may have a dead one next to one that lives
	news      []news                  // oldest first, at most keptNews
	listed    bool                    // instances have been listed
	begun     bool                    // events have been
}

// news is something that has happened.
type news struct {
	id   string // of the event; "" of what else is said
	at   api.Time
	text string
}

// keptNews is how many lines of news a live screen may show.
const keptNews = 100

// known reports whether a replica has said how the cluster is.
func (l *live) known() bool { return l.status != nil && l.listed }

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
func (l *live) ofEvents(c *client.Change[api.Event]) []news {
	items := slices.Clone(c.Items)
	if c.Kind == client.Snapshot {
		slices.Reverse(items) // the newest last
	}
	var last string
	known := map[string]bool{} // one that arrives late has a smaller id than the last
	for i := range l.news {
		if id := l.news[i].id; id != "" {
			last, known[id] = id, true
		}
	}
	var happened []news
	for i := range items {
		e := &items[i]
		if !known[e.ID] && (c.Kind != client.Snapshot || e.ID > last) {
			happened = append(happened, news{e.ID, e.Time, eventText(e)})
		}
	}
	if !l.begun { // they are older than what was said since the start
		l.begun = true
		l.keep(append(happened, l.news...))
		return nil
	}
	l.keep(append(l.news, happened...))
	return happened
}

// say keeps a line that no event stands for. An empty one is none.
func (l *live) say(at time.Time, text string) []news {
	if text == "" {
		return nil
	}
	said := []news{{at: api.Time{Time: at}, text: text}}
	l.keep(append(l.news, said...))
	return said
}

func (l *live) keep(all []news) { l.news = all[max(0, len(all)-keptNews):] }

// step is a change on its way to who owns the [live].
type step func(*live) []news

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
			return send(func(l *live) []news { l.status = s; return nil })
		}))
	})
	g.Go(func() error {
		handle := func(change client.Change[api.Instance]) error {
			return send(func(l *live) []news { l.ofInstances(&change); return nil })
		}
		return ended(ctx, c.Instances().Watch(ctx, link.options(client.Filter{}), handle))
	})
	g.Go(func() error {
		handle := func(change client.Change[api.Event]) error {
			return send(func(l *live) []news { return l.ofEvents(&change) })
		}
		return ended(ctx, c.Events().Watch(ctx, link.spare(), handle))
	})
	return g.Wait()
}

// display shows a live cluster.
type display interface {
	// show is called after each change, with the news that came with it, and now and then.
	show(l *live, happened []news) error
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
		d = &liveScreen{screen: openScreen(w), globals: g, link: link}
	}
	defer d.close()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return followLive(ctx, c, link, d, nil)
}

// Live shows a cluster and how it changes, as `shardctl status -w` does, to a program that has something to add.
type Live struct {
	Client *client.Client
	// Out is a terminal, which gets a screen, or anything else, which gets a line for each change.
	Out io.Writer
	// Foot returns the last lines of the screen, such as which keys do what.
	Foot func() []string
	// Say carries what else has happened, a line each. An empty line only has the screen drawn again.
	Say <-chan string
}

// Run shows the cluster until ctx ends, which is no error. It waits for a replica that does not answer yet.
func (l Live) Run(ctx context.Context) error {
	g := new(Globals)
	link := &link{globals: g, url: l.Client.BaseURL(), patient: true}
	var d display = &liveLines{globals: g, w: l.Out, early: true}
	if terminal(l.Out) {
		d = &liveScreen{openScreen(l.Out), g, link, l.Foot}
	}
	defer d.close()
	return followLive(ctx, l.Client, link, d, l.Say)
}

func followLive(ctx context.Context, c *client.Client, link *link, d display, say <-chan string) error {
	ctx, cancel := context.WithCancel(ctx)
	changes, ended := make(chan step), make(chan error, 1)
	go func() { ended <- watchLive(ctx, c, link, changes) }()
	err := showLive(ctx, d, changes, say, ended)
	cancel()
	if failed := <-ended; err == nil {
		err = failed
	}
	return err
}

// showLive applies changes and has them shown until watching has ended, or ctx.
func showLive(ctx context.Context, d display, changes <-chan step, say <-chan string, ended chan error) error {
	var state live
	tick := time.NewTicker(livePace)
	defer tick.Stop()
	for {
		var happened []news
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			ended <- nil
			return err
		case change := <-changes:
			happened = change(&state)
		case text := <-say:
			happened = state.say(time.Now(), text)
		case <-tick.C:
		}
		if say == nil && !state.known() {
			continue
		}
		if err := d.show(&state, happened); err != nil {
			return err
		}
	}
}

// liveLines prints the screen once, and then a line for each change. If it is early, it leaves out the screen: to it
// all that is there at first is a change.
type liveLines struct {
	globals   *Globals
	w         io.Writer
	early     bool
	status    *api.Status // as it was printed
	instances map[string]api.Instance
}

func (d *liveLines) close() {}

func (d *liveLines) show(l *live, happened []news) error {
	v := d.globals.surface(d.w)
	var out strings.Builder
	if d.early && l.known() && d.status == nil {
		d.status, d.instances = &api.Status{}, map[string]api.Instance{}
	}
	if d.early || d.status != nil {
		for i := range happened {
			d.line(&out, happened[i].at.Time, happened[i].text)
		}
	}
	switch {
	case !l.known():
	case d.status == nil:
		if err := writeStatus(&out, v, l.status, l.shown()); err != nil {
			return err
		}
		out.WriteByte('\n')
	default:
		d.groups(&out, v.Now, l.status)
		d.difficulties(&out, v.Now, l.status)
	}
	if l.known() {
		d.ofInstances(&out, v.Now, l)
		d.status = l.status
	}
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
	fmt.Fprintf(out, "%s %s\n", at.In(d.globals.now().Location()).Format(time.TimeOnly), Printable(text))
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
	fresh, over := problemChanges(d.status.Problems, s.Problems)
	for i := range fresh {
		what := strings.TrimSpace("problem " + fresh[i].Reason + " " + about(&fresh[i]))
		d.line(out, now, what+": "+fresh[i].Message)
	}
	for i := range over {
		d.line(out, now, strings.TrimSpace("problem over: "+over[i].Reason+" "+about(&over[i])))
	}
}

// ofInstances says which instances are in another state than before, or have another application.
func (d *liveLines) ofInstances(out *strings.Builder, now time.Time, l *live) {
	begun := d.instances != nil
	for _, id := range slices.Sorted(maps.Keys(l.instances)) {
		i, before := l.instances[id], d.instances[id]
		if !begun {
			continue
		}
		if text := instanceText(&i); text != instanceText(&before) {
			if i.Message != "" {
				text += ", " + i.Message
			}
			d.line(out, now, text)
		}
		if text := applicationText(i.Application); text != "" && text != applicationText(before.Application) {
			d.line(out, now, fmt.Sprintf("instance %s: application %s", i.Name, text))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.instances)) {
		if _, still := l.instances[id]; !still {
			d.line(out, now, fmt.Sprintf("instance %s: gone", d.instances[id].Name))
		}
	}
	d.instances = maps.Clone(l.instances)
}

// instanceText is an instance and its state.
func instanceText(i *api.Instance) string {
	return fmt.Sprintf("instance %s: %s", i.Name, new(surface).stateOf(i))
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

package cli

import (
	"cmp"
	"context"
	"io"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

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
		if id := first(c.Items[i].Session, c.Items[i].Name); c.Kind == client.Delete {
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
		d = newLiveScreen(g, w, link)
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

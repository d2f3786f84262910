package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// follow shows the list and then each change, until ctx ends. A connection that breaks is made again, so that a watch
// outlives a rolling update; the first one must succeed.
func (l *lister[T]) follow(ctx context.Context) error {
	l.printer = newPrinter(clocked(l.resource), l.output.format == formatWide, !l.options.noHeaders)
	link := &link{globals: l.globals, url: l.client.BaseURL(), note: l.note}
	seen := false
	return ended(ctx, link.beside(ctx, l.client, func(ctx context.Context) error {
		return l.resource.of(l.client).Watch(ctx, link.options(l.filter), func(c client.Change[T]) error {
			again := seen
			seen = true
			return l.change(c, again, c.Stale || link.isStale())
		})
	}))
}

// clocked are the columns of rows that are watched: each begins with the time of day, since rows stay as they were
// written.
func clocked[T any](res resource[T]) []column[T] {
	columns := slices.Clone(res.columns)
	when := func(v *surface, item *T) string {
		if res.at != nil {
			return res.at(item).In(v.Now.Location()).Format(time.TimeOnly)
		}
		return v.Now.Format(time.TimeOnly)
	}
	if res.at != nil { // the age of what has happened says the same
		columns = slices.DeleteFunc(columns, func(c column[T]) bool { return c.Title == "age" || c.Title == "time" })
	}
	return append([]column[T]{{Title: "time", Cell: when}}, columns...)
}

func (l *lister[T]) change(c client.Change[T], again, stale bool) error {
	items := l.keep(c.Items)
	if len(items) == 0 && (again || c.Kind != client.Snapshot) {
		return nil
	}
	if c.Kind == client.Delete {
		for i := range items {
			l.resource.gone(&items[i])
		}
	}
	if l.resource.kind == "events" && c.Kind == client.Snapshot {
		slices.Reverse(items) // as a log: the newest last
	}
	return l.writeChange(c.Kind, items, stale)
}

// writeChange writes a line for each item; JSON says what happened to it, as kubectl's --output-watch-events does.
func (l *lister[T]) writeChange(kind client.ChangeKind, items []T, stale bool) error {
	if l.output.format == formatPath {
		for i := range items {
			if err := l.output.Write(l.out, items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if l.output.format != formatJSON {
		return l.rows(items)
	}
	for i := range items {
		line := struct {
			Type   client.ChangeKind `json:"type"`
			Object T                 `json:"object"`
			Stale  bool              `json:"stale"`
		}{kind, items[i], stale}
		if err := writeJSON(l.out, line, true); err != nil {
			return err
		}
	}
	return nil
}

// link is what ties a command to a replica that it watches, over one or several connections. These may break and come
// back, as in a rolling update. Each break is reported once. Its methods may be called concurrently.
type link struct {
	globals *Globals
	url     string
	note    io.Writer // where breaks are reported; nil: nowhere
	patient bool      // a first connection that fails is tried again, too

	mu     sync.Mutex
	broken int       // connections
	since  time.Time // when the first of them broke
	stale  bool      // as the replica said last
}

// connection is one of a link. It belongs to one goroutine.
type connection struct {
	link   *link
	broken bool
}

// down says that the connection has broken.
func (c *connection) down(err error) {
	if c.broken {
		return
	}
	c.broken = true
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken++; l.broken == 1 {
		l.since = l.globals.now()
		l.report("lost %s (%s); trying again", l.url, Printable(root(err).Error()))
	}
}

// up says that the connection stands.
func (c *connection) up() {
	if !c.broken {
		return
	}
	c.broken = false
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken--; l.broken == 0 {
		l.report("%s answers again after %s", l.url, span(l.globals.now().Sub(l.since)))
	}
}

// lostFor is for how long the connection has been broken.
func (l *link) lostFor(now time.Time) (d time.Duration, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == 0 {
		return 0, false
	}
	return now.Sub(l.since), true
}

// report writes a line with the time of day.
func (l *link) report(format string, args ...any) {
	if l.note != nil {
		// a note on what is asked for: nothing depends on it
		_, _ = fmt.Fprintf(l.note, "%s %s\n", l.globals.now().Format(time.TimeOnly),
			Printable(fmt.Sprintf(format, args...)))
	}
}

// options are those of a watch over a connection of the link.
func (l *link) options(f client.Filter) client.WatchOptions {
	c := &connection{link: l}
	return client.WatchOptions{Filter: f, Connected: c.up, Broken: c.down, Patient: l.patient}
}

// spare are the options of a watch without which the rest is still of use. It is tried again also when it cannot
// begin, and only reported once it has begun.
func (l *link) spare() client.WatchOptions {
	o, begun := l.options(client.Filter{}), false
	up, down := o.Connected, o.Broken
	o.Patient, o.Connected = true, func() { begun = true; up() }
	o.Broken = func(err error) {
		if begun {
			down(err)
		}
	}
	return o
}

// ended is the error of a watch, nil when it ended because ctx did: ending a watch is how it is meant to end.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // ctx says how it ended
	}
	return err
}

// What --stale says.
const (
	staleWarn = "warn"
	staleFail = "fail"
)

// staleHelp is in the help of commands that show something.
const staleHelp = `

While the store is away a replica answers with what it saw last. A line on standard error says since when that may be
out of date; JSON and YAML have "stale": true. With --stale=fail the exit code is 3 then, and a watch ends.`

// staleness is what the command that runs has heard of answers that are stale. It may be used from many goroutines.
type staleness struct {
	fail  bool        // --stale=fail
	heard atomic.Bool // of an answer, since it was last set to false
	asked *client.Client
}

func (s *staleness) note(stale bool) {
	if stale {
		s.heard.Store(true)
	}
}

// errStale ends a watch that --stale=fail is given for.
var errStale = errors.New("what is watched is stale")

// addStale adds --stale to a command that reads, and has it obey: whatever it shows, [Globals.judge] ends it.
func (g *Globals) addStale(cmd *cobra.Command, byDefault string) {
	var word string
	cmd.Flags().StringVar(&word, "stale", byDefault, "when the store is away: warn, or fail with exit code 3")
	fixedWords(cmd, "stale", staleWarn, staleFail)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if word != staleWarn && word != staleFail {
			return usage("--stale %q: want warn or fail", word)
		}
		g.stale.fail = word == staleFail
		return g.judge(cmd, run(cmd, args))
	}
}

// judge is the one rule about stale answers. A command that has shown one, or has ended in vain after one, says so in a
// line. With --stale=fail it ends with [CodeStale] then; else its code is what it would have been.
func (g *Globals) judge(cmd *cobra.Command, err error) error {
	watched := errors.Is(err, errStale)
	if !watched && !g.stale.heard.Load() {
		return err
	}
	_, _ = fmt.Fprintln(Shown(cmd.ErrOrStderr()), g.whyStale(cmd.Context())) // there is nowhere else to report it
	if _, decided := errors.AsType[Exit](err); decided || !g.stale.fail {
		return err
	}
	if watched {
		err = nil
	}
	return Exit{CodeStale, err}
}

// whyStale asks since when, and why.
func (g *Globals) whyStale(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s, err := g.stale.asked.Status(ctx)
	if err != nil || !s.Stale {
		return "stale: the store did not answer when this was read: it may be out of date"
	}
	return staleText(s, g.now())
}

// staleText is what a stale status says of itself, in a line.
func staleText(s *api.Status, now time.Time) string {
	text := "stale: the store has not been read yet: nothing is known for sure"
	if !s.ObservedAt.IsZero() {
		text = fmt.Sprintf("stale: the store has not answered since %s, %s ago: what is shown may be out of date",
			s.ObservedAt, span(now.Sub(s.ObservedAt.Time)))
	}
	if s.Store.Error != "" {
		text += " (" + Printable(s.Store.Error) + ")"
	}
	return text
}

// beside watches, and reports when what is watched becomes stale and when it is fresh again.
func (l *link) beside(ctx context.Context, c *client.Client, watch func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return watch(ctx) })
	g.Go(func() error { return c.WatchStatus(ctx, l.spare(), l.heard) })
	return g.Wait()
}

// isStale says whether the replica said so last.
func (l *link) isStale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stale
}

// heard takes the status of a replica that is watched. [errStale]: it is stale, and --stale=fail was given.
func (l *link) heard(s *api.Status) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.stale
	l.stale = s.Stale
	switch {
	case s.Stale && l.globals.stale.fail:
		return errStale
	case s.Stale && !was:
		l.report("%s", staleText(s, l.globals.now()))
	case was && !s.Stale:
		l.report("fresh again: the store answers")
	}
	return nil
}

package cli

import (
	"context"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/client"
)

// follow shows the list and then each change, until ctx ends. A connection that breaks is made again, so that a watch
// outlives a rolling update; the first one must succeed.
func (l *lister[T]) follow(ctx context.Context) error {
	l.printer = newPrinter(clocked(l.resource), l.output.format == formatWide, !l.options.noHeaders)
	link := &link{globals: l.globals, url: l.client.BaseURL(), note: l.note}
	seen := false
	switch l.resource.kind {
	case "events":
		l.filter.Task = l.wanted.text() // so that the list it begins with is of this one, too
	case "tasks":
		l.wanted.narrow(&l.filter)
	case "locks":
		l.filter.Q = l.wanted.text()
	}
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
	when := func(v *view, item *T) string {
		if res.at != nil {
			return res.at(item).In(v.now.Location()).Format(time.TimeOnly)
		}
		return v.now.Format(time.TimeOnly)
	}
	if res.at != nil { // the age of what has happened says the same
		columns = slices.DeleteFunc(columns, func(c column[T]) bool { return c.title == "age" || c.title == "time" })
	}
	return append([]column[T]{{title: "time", keep: keepState, cell: when}}, columns...)
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

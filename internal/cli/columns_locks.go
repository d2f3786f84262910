package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/api"
)

func lockColumns() []column[api.Lock] {
	type T = api.Lock
	return []column[T]{
		{title: "key", cell: func(_ *view, l *T) string { return orDash(l.Key) }},
		{title: "kind", keep: keepUseful, cell: func(_ *view, l *T) string { return orDash(string(l.Kind)) }},
		{title: "instance", keep: keepState, cell: func(_ *view, l *T) string { return holdersText(l) }},
		{title: "held", cell: func(_ *view, l *T) string { return heldText(l) }},
		{
			title: "waiting", keep: keepState, right: true,
			cell: func(_ *view, l *T) string { return strconv.Itoa(l.Waiting) },
		},
		{title: "token", right: true, cell: func(_ *view, l *T) string { return number(l.FencingToken) }},
		{title: "age", keep: keepUseful, right: true, cell: func(v *view, l *T) string { return v.age(heldSince(l)) }},
		{title: "reason", keep: keepReason, cell: func(_ *view, l *T) string { return orDash(l.Reason) }},
		{title: "session", wide: true, cell: func(_ *view, l *T) string { return orDash(l.Session) }},
		{title: "next", wide: true, cell: func(_ *view, l *T) string { return orDash(l.Next) }},
		{title: "queue", wide: true, cell: func(_ *view, l *T) string { return queueText(l) }},
		{title: "kept until", wide: true, right: true, cell: func(v *view, l *T) string { return v.age(l.KeptUntil) }},
		{title: "suspended", wide: true, cell: func(_ *view, l *T) string { return strconv.FormatBool(l.Suspended) }},
		{
			title: "message", prose: true, keep: keepReason, wide: true,
			cell: func(_ *view, l *T) string { return orDash(l.Message) },
		},
	}
}

// shortList is how many instances of one lock a table names.
const shortList = 3

// someOf joins the first of several names, and says how many more there are.
func someOf(names []string, all int) string {
	if len(names) > shortList {
		names = names[:shortList]
	}
	text := strings.Join(names, ",")
	if more := all - len(names); more > 0 {
		text += fmt.Sprintf(",+%d", more)
	}
	return orDash(text)
}

// holdersText are the instances that hold the lock.
func holdersText(l *api.Lock) string {
	names := make([]string, len(l.Holders))
	for i, h := range l.Holders {
		names[i] = first(h.Instance, "?")
	}
	return someOf(names, len(names))
}

// heldText is how much of a lock is held: "2/5", or "3 read" and "1 write" of a read-write lock.
func heldText(l *api.Lock) string {
	switch {
	case l.Limit > 0:
		return fmt.Sprintf("%d/%d", len(l.Holders), l.Limit)
	case len(l.Holders) == 0:
		return "-"
	case l.Holders[0].Shared:
		return fmt.Sprintf("%d read", len(l.Holders))
	}
	return "1 write"
}

// queueText are the instances that wait, the next one first.
func queueText(l *api.Lock) string {
	names := make([]string, len(l.Queue))
	for i, w := range l.Queue {
		names[i] = first(w.Instance, "?")
	}
	return someOf(names, l.Waiting)
}

// heldSince is since when the one who holds it longest does.
func heldSince(l *api.Lock) api.Time {
	since := l.OwnedSince
	for _, h := range l.Holders {
		if since.IsZero() || !h.HeldSince.IsZero() && h.HeldSince.Before(since.Time) {
			since = h.HeldSince
		}
	}
	return since
}

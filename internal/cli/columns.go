package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/status"
)

func taskColumns() []column[status.Task] {
	type T = status.Task
	return []column[T]{
		{title: "task", cell: func(_ *view, t *T) string { return orDash(t.Key) }},
		{title: "state", cell: func(v *view, t *T) string { return v.state(string(t.State)) }},
		{title: "instance", cell: func(_ *view, t *T) string { return orDash(t.Instance) }},
		{title: "age", right: true, cell: func(v *view, t *T) string { return v.age(t.StateSince) }},
		{title: "restarts", right: true, cell: func(_ *view, t *T) string { return strconv.Itoa(t.Restarts) }},
		{title: "reason", cell: func(_ *view, t *T) string { return orDash(t.Reason) }},
		{title: "kind", wide: true, cell: func(_ *view, t *T) string { return orDash(t.Kind) }},
		{title: "token", wide: true, right: true, cell: func(_ *view, t *T) string { return number(t.FencingToken) }},
		{title: "next run", wide: true, cell: func(v *view, t *T) string { return v.age(t.NextRunAt) }},
		{title: "pinned to", wide: true, cell: func(_ *view, t *T) string { return orDash(t.PinnedTo) }},
		{title: "labels", wide: true, cell: func(_ *view, t *T) string { return labelText(t.Labels) }},
		{
			title: "message", wide: true,
			cell: func(_ *view, t *T) string { return orDash(first(t.LastError, t.Message)) },
		},
	}
}

func instanceColumns() []column[status.Instance] {
	type T = status.Instance
	return []column[T]{
		{title: "name", cell: func(_ *view, i *T) string { return orDash(i.Name) }},
		{title: "state", cell: func(v *view, i *T) string { return v.state(string(i.State)) }},
		{title: "tasks", right: true, cell: func(_ *view, i *T) string { return strconv.Itoa(total(i.Owned)) }},
		{title: "owned/cap", cell: func(_ *view, i *T) string { return ownedText(i) }},
		{title: "zone", cell: func(_ *view, i *T) string { return orDash(i.Zone) }},
		{title: "version", cell: func(_ *view, i *T) string { return orDash(i.Version) }},
		{
			title: "heartbeat", right: true,
			cell: func(_ *view, i *T) string { return fmt.Sprintf("%.1fs", i.HeartbeatAgeSeconds) },
		},
		{title: "age", right: true, cell: func(v *view, i *T) string { return v.age(i.StartedAt) }},
		{title: "session", wide: true, cell: func(_ *view, i *T) string { return orDash(i.Session) }},
		{title: "address", wide: true, cell: func(_ *view, i *T) string { return orDash(i.Address) }},
		{title: "revision", wide: true, cell: func(_ *view, i *T) string { return orDash(i.Revision) }},
		{title: "labels", wide: true, cell: func(_ *view, i *T) string { return labelText(i.Labels) }},
	}
}

func groupColumns() []column[status.Group] {
	type T = status.Group
	columns := []column[T]{
		{title: "name", cell: func(_ *view, g *T) string { return orDash(g.Name) }},
		{title: "tasks", right: true, cell: func(_ *view, g *T) string { return strconv.Itoa(g.Tasks) }},
	}
	for _, state := range status.TaskStates() {
		rare := state == status.Stopping || state == status.Paused || state == status.Done
		cell := func(v *view, g *T) string {
			n := g.InState(state)
			bad := state == status.Unassigned || state == status.Failed || state == status.Backoff
			if bad && n > 0 {
				return v.paint("31", strconv.Itoa(n))
			}
			return strconv.Itoa(n)
		}
		columns = append(columns, column[T]{title: string(state), right: true, wide: rare, cell: cell})
	}
	return append(
		columns,
		column[T]{title: "cap", right: true, cell: func(_ *view, g *T) string { return limitText(g.Cap) }},
		column[T]{title: "capacity", right: true, cell: func(_ *view, g *T) string { return limitText(g.Capacity) }},
		column[T]{title: "headroom", right: true, cell: func(v *view, g *T) string {
			if g.Headroom != nil && *g.Headroom < 0 {
				return v.paint("31", limitText(g.Headroom))
			}
			return limitText(g.Headroom)
		}},
		column[T]{
			title: "imbalance", right: true, cell: func(_ *view, g *T) string { return strconv.Itoa(g.Imbalance) },
		},
	)
}

func eventColumns() []column[status.Event] {
	type T = status.Event
	return []column[T]{
		{title: "age", right: true, cell: func(v *view, e *T) string { return v.age(e.Time) }},
		{title: "type", cell: func(_ *view, e *T) string { return orDash(e.Type) }},
		{title: "reason", cell: func(_ *view, e *T) string { return orDash(e.Reason) }},
		{title: "task", cell: func(_ *view, e *T) string { return orDash(e.Key) }},
		{title: "from", cell: func(_ *view, e *T) string { return orDash(e.From) }},
		{title: "to", cell: func(_ *view, e *T) string { return orDash(e.To) }},
		{title: "time", wide: true, cell: func(_ *view, e *T) string { return e.Time.String() }},
		{title: "token", wide: true, right: true, cell: func(_ *view, e *T) string { return number(e.FencingToken) }},
		{title: "by", wide: true, cell: func(_ *view, e *T) string { return orDash(e.By) }},
		{title: "message", cell: func(_ *view, e *T) string { return orDash(e.Message) }},
	}
}

func lockColumns() []column[status.Lock] {
	type T = status.Lock
	return []column[T]{
		{title: "key", cell: func(_ *view, l *T) string { return orDash(l.Key) }},
		{title: "instance", cell: func(_ *view, l *T) string { return orDash(l.Instance) }},
		{title: "token", right: true, cell: func(_ *view, l *T) string { return number(l.FencingToken) }},
		{title: "age", right: true, cell: func(v *view, l *T) string { return v.age(l.OwnedSince) }},
		{title: "reason", cell: func(_ *view, l *T) string { return orDash(l.Reason) }},
		{title: "session", wide: true, cell: func(_ *view, l *T) string { return orDash(l.Session) }},
		{title: "next", wide: true, cell: func(_ *view, l *T) string { return orDash(l.Next) }},
		{title: "suspended", wide: true, cell: func(_ *view, l *T) string { return strconv.FormatBool(l.Suspended) }},
		{title: "message", wide: true, cell: func(_ *view, l *T) string { return orDash(l.Message) }},
	}
}

func problemColumns() []column[status.Problem] {
	type T = status.Problem
	return []column[T]{
		{title: "severity", cell: func(v *view, p *T) string { return v.state(string(p.Severity)) }},
		{title: "reason", cell: func(_ *view, p *T) string { return orDash(p.Reason) }},
		{title: "about", cell: func(_ *view, p *T) string { return orDash(about(p)) }},
		{title: "age", right: true, cell: func(v *view, p *T) string { return v.age(p.Since) }},
		{title: "message", cell: func(_ *view, p *T) string { return orDash(p.Message) }},
	}
}

func about(p *status.Problem) string {
	what := first(p.Task, p.Group)
	switch {
	case p.Instance == "":
		return what
	case what == "":
		return p.Instance
	default:
		return what + " on " + p.Instance
	}
}

// ownedText is what the instance owns of what it may, by group: "topics 20/20, mail 3/-".
func ownedText(i *status.Instance) string {
	groups := maps.Clone(map[string]int(i.Owned))
	if groups == nil {
		groups = map[string]int{}
	}
	maps.Copy(groups, i.Caps)
	var parts []string
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		limit := "-"
		if most, ok := i.Caps[group]; ok {
			limit = strconv.Itoa(most)
		}
		parts = append(parts, fmt.Sprintf("%s %d/%s", plainText(group), i.Owned[group], limit))
	}
	return orDash(strings.Join(parts, ", "))
}

func labelText(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return orDash(strings.Join(parts, ","))
}

func total(counts map[string]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

func number(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

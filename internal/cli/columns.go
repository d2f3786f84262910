package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/api"
)

func taskColumns() []column[api.Task] {
	type T = api.Task
	return []column[T]{
		{title: "task", cell: func(_ *view, t *T) string { return orDash(t.Key) }},
		{title: "state", keep: keepState, cell: func(v *view, t *T) string { return v.state(string(t.State)) }},
		{title: "instance", keep: keepState, cell: func(_ *view, t *T) string { return orDash(t.Instance) }},
		{title: "age", keep: keepUseful, right: true, cell: func(v *view, t *T) string { return v.age(t.StateSince) }},
		{
			title: "restarts", keep: keepUseful, right: true,
			cell: func(_ *view, t *T) string { return strconv.Itoa(t.Restarts) },
		},
		{title: "reason", keep: keepReason, cell: func(_ *view, t *T) string { return orDash(t.Reason) }},
		{title: "kind", wide: true, cell: func(_ *view, t *T) string { return orDash(t.Kind) }},
		{title: "lag", wide: true, right: true, cell: func(_ *view, t *T) string { return orDash(behind(t.Lag)) }},
		{title: "token", wide: true, right: true, cell: func(_ *view, t *T) string { return number(t.FencingToken) }},
		{title: "next run", wide: true, cell: func(v *view, t *T) string { return v.age(t.NextRunAt) }},
		{title: "pinned to", wide: true, cell: func(_ *view, t *T) string { return pinText(t) }},
		{
			title: "override", prose: true, wide: true,
			cell: func(v *view, t *T) string { return v.asked(t.Overrides, "task") },
		},
		{title: "labels", wide: true, cell: func(_ *view, t *T) string { return labelText(t.Labels) }},
		{
			title: "message", prose: true, keep: keepReason, wide: true,
			cell: func(_ *view, t *T) string { return orDash(first(t.LastError, t.Message)) },
		},
	}
}

func instanceColumns() []column[api.Instance] {
	type T = api.Instance
	return []column[T]{
		{title: "name", cell: func(_ *view, i *T) string { return orDash(i.Name) }},
		{title: "state", keep: keepState, cell: func(v *view, i *T) string { return v.stateOf(i) }},
		{
			title: "tasks", keep: keepUseful, right: true,
			cell: func(_ *view, i *T) string { return strconv.Itoa(total(i.Owned)) },
		},
		{title: "owned/cap", cell: func(_ *view, i *T) string { return ownedText(i) }},
		{title: "zone", cell: func(_ *view, i *T) string { return orDash(i.Zone) }},
		{title: "version", cell: func(_ *view, i *T) string { return orDash(i.Version) }},
		{
			title: "heartbeat", right: true,
			cell: func(_ *view, i *T) string { return fmt.Sprintf("%.1fs", i.HeartbeatAgeSeconds) },
		},
		{title: "age", keep: keepUseful, right: true, cell: func(v *view, i *T) string { return v.age(i.StartedAt) }},
		{title: "session", wide: true, cell: func(_ *view, i *T) string { return orDash(i.Session) }},
		{title: "address", wide: true, cell: func(_ *view, i *T) string { return orDash(i.Address) }},
		{title: "revision", wide: true, cell: func(_ *view, i *T) string { return orDash(i.Revision) }},
		{title: "labels", wide: true, cell: func(_ *view, i *T) string { return labelText(i.Labels) }},
		{
			title: "override", prose: true, wide: true,
			cell: func(v *view, i *T) string { return v.asked(i.Overrides, "instance") },
		},
	}
}

func groupColumns() []column[api.Group] {
	type T = api.Group
	columns := []column[T]{
		{title: "name", cell: func(_ *view, g *T) string { return orDash(g.Name) }},
		{
			title: "tasks", keep: keepUseful, right: true,
			cell: func(_ *view, g *T) string { return strconv.Itoa(g.Tasks) },
		},
	}
	for _, state := range api.TaskStates() {
		rare := state == api.Stopping || state == api.Paused || state == api.Done
		cell := func(v *view, g *T) string {
			n := g.InState(state)
			bad := state == api.Unassigned || state == api.Failed || state == api.Backoff
			if bad && n > 0 {
				return v.paint("31", strconv.Itoa(n))
			}
			return strconv.Itoa(n)
		}
		columns = append(columns, column[T]{
			title: string(state), keep: worth(state), right: true, wide: rare, cell: cell,
		})
	}
	return append(
		columns,
		column[T]{title: "cap", right: true, cell: func(_ *view, g *T) string { return limitText(g.Cap) }},
		column[T]{title: "capacity", right: true, cell: func(_ *view, g *T) string { return limitText(g.Capacity) }},
		column[T]{title: "headroom", keep: keepUseful, right: true, cell: func(v *view, g *T) string {
			if g.Headroom != nil && *g.Headroom < 0 {
				return v.paint("31", limitText(g.Headroom))
			}
			return limitText(g.Headroom)
		}},
		column[T]{
			title: "imbalance", right: true, cell: func(_ *view, g *T) string { return strconv.Itoa(g.Imbalance) },
		},
		column[T]{
			title: "override", prose: true, wide: true,
			cell: func(v *view, g *T) string { return v.asked(g.Overrides, "group") },
		},
	)
}

// worth is how much the number of tasks in a state is worth on a narrow terminal.
func worth(state api.TaskState) int {
	if state == api.Running || state == api.Unassigned || state == api.Failed {
		return keepState
	}
	return keepUseful
}

func eventColumns() []column[api.Event] {
	type T = api.Event
	return []column[T]{
		{title: "age", keep: keepUseful, right: true, cell: func(v *view, e *T) string { return v.age(e.Time) }},
		{title: "type", keep: keepUseful, cell: func(_ *view, e *T) string { return orDash(e.Type) }},
		{title: "reason", keep: keepReason, cell: func(_ *view, e *T) string { return orDash(e.Reason) }},
		{title: "task", keep: keepState, cell: func(_ *view, e *T) string { return orDash(e.Key) }},
		{title: "from", keep: keepUseful, cell: func(_ *view, e *T) string { return orDash(e.From) }},
		{title: "to", keep: keepUseful, cell: func(_ *view, e *T) string { return orDash(e.To) }},
		{title: "time", wide: true, cell: func(_ *view, e *T) string { return e.Time.String() }},
		{title: "token", wide: true, right: true, cell: func(_ *view, e *T) string { return number(e.FencingToken) }},
		{
			title: "message", prose: true, keep: keepReason,
			cell: func(_ *view, e *T) string { return orDash(saidBy(e)) },
		},
	}
}

// saidBy is the message of an event, after who asked for it, if anyone did.
func saidBy(e *api.Event) string {
	switch {
	case e.By == "":
		return e.Message
	case e.Message == "":
		return "by " + e.By
	default:
		return "by " + e.By + ": " + e.Message
	}
}

func problemColumns() []column[api.Problem] {
	type T = api.Problem
	return []column[T]{
		{title: "severity", keep: keepUseful, cell: func(v *view, p *T) string { return v.state(string(p.Severity)) }},
		{title: "reason", keep: keepState, cell: func(_ *view, p *T) string { return orDash(p.Reason) }},
		{title: "about", keep: keepReason, cell: func(_ *view, p *T) string { return orDash(about(p)) }},
		{title: "age", keep: keepUseful, right: true, cell: func(v *view, p *T) string { return v.age(p.Since) }},
		{
			title: "message", prose: true, keep: keepReason,
			cell: func(_ *view, p *T) string { return orDash(p.Message) },
		},
	}
}

func about(p *api.Problem) string {
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
func ownedText(i *api.Instance) string {
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

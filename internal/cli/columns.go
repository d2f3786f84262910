package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

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

// asked says what operators asked for: "pin to b (strict) by ann 5m ago: near its data". What is shown has the scope.
func (v *view) asked(list api.Overrides, scope string) string {
	parts := make([]string, len(list))
	for i := range list {
		parts[i] = v.override(&list[i], scope)
	}
	return orDash(strings.Join(parts, "; "))
}

func (v *view) override(o *api.Override, scope string) string {
	text := o.Kind
	if o.To != "" {
		text += " to " + o.To
	}
	if o.Strict {
		text += " (strict)"
	}
	if o.Scope != scope {
		text += " of " + o.Scope + " " + o.Name
	}
	if o.By != "" {
		text += " by " + o.By
	}
	if !o.At.IsZero() {
		text += " " + v.age(o.At) + " ago"
	}
	if !o.Until.IsZero() {
		text += " until " + v.until(o.Until)
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}

// until is when something ends, and in how long: "2026-11-27T12:00:00Z (in 90m)"; a dash for never.
func (v *view) until(t api.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339) + " (" + v.age(t) + ")"
}

func overrideColumns() []column[api.Override] {
	type T = api.Override
	return []column[T]{
		{title: "kind", keep: keepState, cell: func(_ *view, o *T) string { return orDash(kindText(o)) }},
		{title: "about", cell: func(_ *view, o *T) string { return orDash(o.Name) }},
		{title: "to", keep: keepState, cell: func(_ *view, o *T) string { return orDash(o.To) }},
		{title: "by", keep: keepUseful, cell: func(_ *view, o *T) string { return orDash(o.By) }},
		{title: "age", keep: keepUseful, right: true, cell: func(v *view, o *T) string { return v.age(o.At) }},
		{title: "ends", keep: keepState, right: true, cell: func(v *view, o *T) string { return v.age(o.Until) }},
		{title: "scope", wide: true, cell: func(_ *view, o *T) string { return orDash(o.Scope) }},
		{title: "asked at", wide: true, cell: func(_ *view, o *T) string { return orDash(o.At.String()) }},
		{title: "until", wide: true, cell: func(_ *view, o *T) string { return orDash(o.Until.String()) }},
		{title: "reason", prose: true, keep: keepReason, cell: func(_ *view, o *T) string { return orDash(o.Reason) }},
	}
}

// kindText is the kind, and that a pin is strict.
func kindText(o *api.Override) string {
	if o.Strict {
		return o.Kind + " (strict)"
	}
	return o.Kind
}

// stateOf is an instance's state, and that it takes no new tasks where that is so.
func (v *view) stateOf(i *api.Instance) string {
	state := v.state(string(i.State))
	if i.State == api.Live && i.Overrides.Find("cordon") != nil {
		state += "," + v.paint("33", "cordoned")
	}
	return state
}

// pinText is where a task is pinned.
func pinText(t *api.Task) string {
	if pin := t.Overrides.Find("pin"); pin != nil && pin.Strict {
		return plainText(t.PinnedTo) + " (strict)"
	}
	return orDash(t.PinnedTo)
}

func runColumns() []column[api.Run] {
	type T = api.Run
	return []column[T]{
		{title: "scheduled", cell: func(_ *view, r *T) string { return orDash(r.ScheduledAt.String()) }},
		{title: "started", cell: func(_ *view, r *T) string { return orDash(r.StartedAt.String()) }},
		{title: "took", keep: keepUseful, right: true, cell: took},
		{title: "result", keep: keepState, cell: func(v *view, r *T) string { return v.runResult(r.Result) }},
		{title: "exit", right: true, cell: func(_ *view, r *T) string { return exitText(r) }},
		{title: "attempt", right: true, cell: func(_ *view, r *T) string { return orDash(positive(r.Attempt)) }},
		{title: "instance", keep: keepUseful, cell: func(_ *view, r *T) string { return orDash(r.Instance) }},
		{title: "token", wide: true, right: true, cell: func(_ *view, r *T) string { return number(r.FencingToken) }},
		{title: "error", prose: true, keep: keepReason, cell: func(_ *view, r *T) string { return orDash(r.Error) }},
	}
}

// took is how long a run took, or goes on for.
func took(v *view, r *api.Run) string {
	switch {
	case r.StartedAt.IsZero():
		return "-"
	case r.EndedAt.IsZero() && r.Result == "Running":
		return span(v.now.Sub(r.StartedAt.Time))
	case r.EndedAt.IsZero():
		return "-"
	}
	if d := r.EndedAt.Sub(r.StartedAt.Time); d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return span(r.EndedAt.Sub(r.StartedAt.Time))
}

func exitText(r *api.Run) string {
	if r.Result != "Succeeded" && r.Result != "Failed" {
		return "-"
	}
	return strconv.Itoa(r.ExitCode)
}

func (v *view) runResult(word string) string {
	code := ""
	switch word {
	case "Succeeded":
		code = "32"
	case "Failed", "TimedOut":
		code = "31"
	case "Interrupted", "Skipped", "Running":
		code = "33"
	}
	return v.paint(code, plainText(word))
}

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

func taskColumns() []Column[api.Task] {
	type T = api.Task
	return []Column[T]{
		{Title: "task", Cell: func(_ *View, t *T) string { return orDash(t.Key) }},
		{Title: "state", Keep: KeepState, Cell: func(v *View, t *T) string { return v.state(string(t.State)) }},
		{Title: "instance", Keep: KeepState, Cell: func(_ *View, t *T) string { return orDash(t.Instance) }},
		{Title: "age", Keep: KeepUseful, Right: true, Cell: func(v *View, t *T) string { return v.age(t.StateSince) }},
		{
			Title: "restarts", Keep: KeepUseful, Right: true,
			Cell: func(_ *View, t *T) string { return strconv.Itoa(t.Restarts) },
		},
		{Title: "reason", Keep: KeepReason, Cell: func(_ *View, t *T) string { return orDash(t.Reason) }},
		{Title: "kind", Wide: true, Cell: func(_ *View, t *T) string { return orDash(t.Kind) }},
		{Title: "lag", Wide: true, Right: true, Cell: func(_ *View, t *T) string { return orDash(behind(t.Lag)) }},
		{Title: "token", Wide: true, Right: true, Cell: func(_ *View, t *T) string { return number(t.FencingToken) }},
		{Title: "next run", Wide: true, Cell: func(v *View, t *T) string { return v.age(t.NextRunAt) }},
		{Title: "pinned to", Wide: true, Cell: func(_ *View, t *T) string { return pinText(t) }},
		{
			Title: "override", Prose: true, Wide: true,
			Cell: func(v *View, t *T) string { return v.asked(t.Overrides, "task") },
		},
		{Title: "labels", Wide: true, Cell: func(_ *View, t *T) string { return labelText(t.Labels) }},
		{
			Title: "message", Prose: true, Keep: KeepReason, Wide: true,
			Cell: func(_ *View, t *T) string { return orDash(first(t.LastError, t.Message)) },
		},
	}
}

func instanceColumns() []Column[api.Instance] {
	type T = api.Instance
	return []Column[T]{
		{Title: "name", Cell: func(_ *View, i *T) string { return orDash(i.Name) }},
		{Title: "state", Keep: KeepState, Cell: func(v *View, i *T) string { return v.stateOf(i) }},
		{
			Title: "tasks", Keep: KeepUseful, Right: true,
			Cell: func(_ *View, i *T) string { return strconv.Itoa(total(i.Owned)) },
		},
		{Title: "owned/cap", Cell: func(_ *View, i *T) string { return ownedText(i) }},
		{Title: "zone", Cell: func(_ *View, i *T) string { return orDash(i.Zone) }},
		{Title: "version", Cell: func(_ *View, i *T) string { return orDash(i.Version) }},
		{
			Title: "heartbeat", Right: true,
			Cell: func(_ *View, i *T) string { return fmt.Sprintf("%.1fs", i.HeartbeatAgeSeconds) },
		},
		{Title: "age", Keep: KeepUseful, Right: true, Cell: func(v *View, i *T) string { return v.age(i.StartedAt) }},
		{Title: "session", Wide: true, Cell: func(_ *View, i *T) string { return orDash(i.Session) }},
		{Title: "address", Wide: true, Cell: func(_ *View, i *T) string { return orDash(i.Address) }},
		{Title: "revision", Wide: true, Cell: func(_ *View, i *T) string { return orDash(i.Revision) }},
		{Title: "labels", Wide: true, Cell: func(_ *View, i *T) string { return labelText(i.Labels) }},
		{
			Title: "override", Prose: true, Wide: true,
			Cell: func(v *View, i *T) string { return v.asked(i.Overrides, "instance") },
		},
	}
}

func groupColumns() []Column[api.Group] {
	type T = api.Group
	columns := []Column[T]{
		{Title: "name", Cell: func(_ *View, g *T) string { return orDash(g.Name) }},
		{
			Title: "tasks", Keep: KeepUseful, Right: true,
			Cell: func(_ *View, g *T) string { return strconv.Itoa(g.Tasks) },
		},
	}
	for _, state := range api.TaskStates() {
		rare := state == api.Stopping || state == api.Paused || state == api.Done
		cell := func(v *View, g *T) string {
			n := g.InState(state)
			bad := state == api.Unassigned || state == api.Failed || state == api.Backoff
			if bad && n > 0 {
				return v.Paint("31", strconv.Itoa(n))
			}
			return strconv.Itoa(n)
		}
		columns = append(columns, Column[T]{
			Title: string(state), Keep: worth(state), Right: true, Wide: rare, Cell: cell,
		})
	}
	return append(
		columns,
		Column[T]{Title: "cap", Right: true, Cell: func(_ *View, g *T) string { return limitText(g.Cap) }},
		Column[T]{Title: "capacity", Right: true, Cell: func(_ *View, g *T) string { return limitText(g.Capacity) }},
		Column[T]{Title: "headroom", Keep: KeepUseful, Right: true, Cell: func(v *View, g *T) string {
			if g.Headroom != nil && *g.Headroom < 0 {
				return v.Paint("31", limitText(g.Headroom))
			}
			return limitText(g.Headroom)
		}},
		Column[T]{
			Title: "imbalance", Right: true, Cell: func(_ *View, g *T) string { return strconv.Itoa(g.Imbalance) },
		},
		Column[T]{
			Title: "override", Prose: true, Wide: true,
			Cell: func(v *View, g *T) string { return v.asked(g.Overrides, "group") },
		},
	)
}

// worth is how much the number of tasks in a state is worth on a narrow terminal.
func worth(state api.TaskState) int {
	if state == api.Running || state == api.Unassigned || state == api.Failed {
		return KeepState
	}
	return KeepUseful
}

func eventColumns() []Column[api.Event] {
	type T = api.Event
	return []Column[T]{
		{Title: "age", Keep: KeepUseful, Right: true, Cell: func(v *View, e *T) string { return v.age(e.Time) }},
		{Title: "type", Keep: KeepUseful, Cell: func(_ *View, e *T) string { return orDash(e.Type) }},
		{Title: "reason", Keep: KeepReason, Cell: func(_ *View, e *T) string { return orDash(e.Reason) }},
		{Title: "task", Keep: KeepState, Cell: func(_ *View, e *T) string { return orDash(e.Key) }},
		{Title: "from", Keep: KeepUseful, Cell: func(_ *View, e *T) string { return orDash(e.From) }},
		{Title: "to", Keep: KeepUseful, Cell: func(_ *View, e *T) string { return orDash(e.To) }},
		{Title: "time", Wide: true, Cell: func(_ *View, e *T) string { return e.Time.String() }},
		{Title: "token", Wide: true, Right: true, Cell: func(_ *View, e *T) string { return number(e.FencingToken) }},
		{
			Title: "message", Prose: true, Keep: KeepReason,
			Cell: func(_ *View, e *T) string { return orDash(saidBy(e)) },
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

func problemColumns() []Column[api.Problem] {
	type T = api.Problem
	return []Column[T]{
		{Title: "severity", Keep: KeepUseful, Cell: func(v *View, p *T) string { return v.state(string(p.Severity)) }},
		{Title: "reason", Keep: KeepState, Cell: func(_ *View, p *T) string { return orDash(p.Reason) }},
		{Title: "about", Keep: KeepReason, Cell: func(_ *View, p *T) string { return orDash(about(p)) }},
		{Title: "age", Keep: KeepUseful, Right: true, Cell: func(v *View, p *T) string { return v.age(p.Since) }},
		{
			Title: "message", Prose: true, Keep: KeepReason,
			Cell: func(_ *View, p *T) string { return orDash(p.Message) },
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

func lockColumns() []Column[api.Lock] {
	type T = api.Lock
	return []Column[T]{
		{Title: "key", Cell: func(_ *View, l *T) string { return orDash(l.Key) }},
		{Title: "kind", Keep: KeepUseful, Cell: func(_ *View, l *T) string { return orDash(string(l.Kind)) }},
		{Title: "instance", Keep: KeepState, Cell: func(_ *View, l *T) string { return holdersText(l) }},
		{Title: "held", Cell: func(_ *View, l *T) string { return heldText(l) }},
		{
			Title: "waiting", Keep: KeepState, Right: true,
			Cell: func(_ *View, l *T) string { return strconv.Itoa(l.Waiting) },
		},
		{Title: "token", Right: true, Cell: func(_ *View, l *T) string { return number(l.FencingToken) }},
		{Title: "age", Keep: KeepUseful, Right: true, Cell: func(v *View, l *T) string { return v.age(heldSince(l)) }},
		{Title: "reason", Keep: KeepReason, Cell: func(_ *View, l *T) string { return orDash(l.Reason) }},
		{Title: "session", Wide: true, Cell: func(_ *View, l *T) string { return orDash(l.Session) }},
		{Title: "next", Wide: true, Cell: func(_ *View, l *T) string { return orDash(l.Next) }},
		{Title: "queue", Wide: true, Cell: func(_ *View, l *T) string { return queueText(l) }},
		{Title: "kept until", Wide: true, Right: true, Cell: func(v *View, l *T) string { return v.age(l.KeptUntil) }},
		{Title: "suspended", Wide: true, Cell: func(_ *View, l *T) string { return strconv.FormatBool(l.Suspended) }},
		{
			Title: "message", Prose: true, Keep: KeepReason, Wide: true,
			Cell: func(_ *View, l *T) string { return orDash(l.Message) },
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
func (v *View) asked(list api.Overrides, scope string) string {
	parts := make([]string, len(list))
	for i := range list {
		parts[i] = v.override(&list[i], scope)
	}
	return orDash(strings.Join(parts, "; "))
}

func (v *View) override(o *api.Override, scope string) string {
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
func (v *View) until(t api.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339) + " (" + v.age(t) + ")"
}

func overrideColumns() []Column[api.Override] {
	type T = api.Override
	return []Column[T]{
		{Title: "kind", Keep: KeepState, Cell: func(_ *View, o *T) string { return orDash(kindText(o)) }},
		{Title: "about", Cell: func(_ *View, o *T) string { return orDash(o.Name) }},
		{Title: "to", Keep: KeepState, Cell: func(_ *View, o *T) string { return orDash(o.To) }},
		{Title: "by", Keep: KeepUseful, Cell: func(_ *View, o *T) string { return orDash(o.By) }},
		{Title: "age", Keep: KeepUseful, Right: true, Cell: func(v *View, o *T) string { return v.age(o.At) }},
		{Title: "ends", Keep: KeepState, Right: true, Cell: func(v *View, o *T) string { return v.age(o.Until) }},
		{Title: "scope", Wide: true, Cell: func(_ *View, o *T) string { return orDash(o.Scope) }},
		{Title: "asked at", Wide: true, Cell: func(_ *View, o *T) string { return orDash(o.At.String()) }},
		{Title: "until", Wide: true, Cell: func(_ *View, o *T) string { return orDash(o.Until.String()) }},
		{Title: "reason", Prose: true, Keep: KeepReason, Cell: func(_ *View, o *T) string { return orDash(o.Reason) }},
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
func (v *View) stateOf(i *api.Instance) string {
	state := v.state(string(i.State))
	if i.State == api.Live && i.Overrides.Find("cordon") != nil {
		state += "," + v.Paint("33", "cordoned")
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

func runColumns() []Column[api.Run] {
	type T = api.Run
	return []Column[T]{
		{Title: "scheduled", Cell: func(_ *View, r *T) string { return orDash(r.ScheduledAt.String()) }},
		{Title: "started", Cell: func(_ *View, r *T) string { return orDash(r.StartedAt.String()) }},
		{Title: "took", Keep: KeepUseful, Right: true, Cell: took},
		{Title: "result", Keep: KeepState, Cell: func(v *View, r *T) string { return v.runResult(r.Result) }},
		{Title: "exit", Right: true, Cell: func(_ *View, r *T) string { return exitText(r) }},
		{Title: "attempt", Right: true, Cell: func(_ *View, r *T) string { return orDash(positive(r.Attempt)) }},
		{Title: "instance", Keep: KeepUseful, Cell: func(_ *View, r *T) string { return orDash(r.Instance) }},
		{Title: "token", Wide: true, Right: true, Cell: func(_ *View, r *T) string { return number(r.FencingToken) }},
		{Title: "error", Prose: true, Keep: KeepReason, Cell: func(_ *View, r *T) string { return orDash(r.Error) }},
	}
}

// took is how long a run took, or goes on for.
func took(v *View, r *api.Run) string {
	switch {
	case r.StartedAt.IsZero():
		return "-"
	case r.EndedAt.IsZero() && r.Result == "Running":
		return span(v.Now.Sub(r.StartedAt.Time))
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

func (v *View) runResult(word string) string {
	code := ""
	switch word {
	case "Succeeded":
		code = "32"
	case "Failed", "TimedOut":
		code = "31"
	case "Interrupted", "Skipped", "Running":
		code = "33"
	}
	return v.Paint(code, plainText(word))
}

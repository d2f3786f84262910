package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/printable"
	"github.com/shardctl/shardctl/pkg/api"
)

func taskColumns() []Column[api.Task] {
	type T = api.Task
	return []Column[T]{
		ofText("task", KeepExtra, func(t *T) string { return t.Key }),
		{Title: "state", Keep: KeepState, Cell: func(v *View, t *T) string { return v.state(string(t.State)) }},
		ofText("instance", KeepState, func(t *T) string { return t.Instance }),
		ofAge("age", KeepUseful, func(t *T) api.Time { return t.StateSince }),
		ofCount("restarts", KeepUseful, func(t *T) int { return t.Restarts }),
		ofText("reason", KeepReason, func(t *T) string { return t.Reason }),
		onlyWide(ofText("kind", KeepExtra, func(t *T) string { return t.Kind })),
		{Title: "lag", Wide: true, Right: true, Cell: func(_ *View, t *T) string { return orDash(behind(t.Lag)) }},
		{Title: "load", Wide: true, Right: true, Cell: func(_ *View, t *T) string { return orDash(loadText(t.Load)) }},
		{Title: "token", Wide: true, Right: true, Cell: func(_ *View, t *T) string { return number(t.FencingToken) }},
		{Title: "next run", Wide: true, Cell: func(v *View, t *T) string { return v.age(t.NextRunAt) }},
		{Title: "pinned to", Wide: true, Cell: func(_ *View, t *T) string { return pinText(t) }},
		ofOverrides("task", func(t *T) api.Overrides { return t.Overrides }),
		{Title: "labels", Wide: true, Cell: func(_ *View, t *T) string { return labelText(t.Labels) }},
		onlyWide(ofProse("message", KeepReason, func(t *T) string { return cmp.Or(t.LastError, t.Message) })),
	}
}

func instanceColumns() []Column[api.Instance] {
	type T = api.Instance
	return []Column[T]{
		ofText("name", KeepExtra, func(i *T) string { return i.Name }),
		{Title: "state", Keep: KeepState, Cell: func(v *View, i *T) string { return v.stateOf(i) }},
		ofCount("tasks", KeepUseful, func(i *T) int { return total(i.Owned) }),
		{Title: "owned/cap", Cell: func(_ *View, i *T) string { return ownedText(i) }},
		ofText("zone", KeepExtra, func(i *T) string { return i.Zone }),
		ofText("version", KeepExtra, func(i *T) string { return i.Version }),
		{Title: "heartbeat", Right: true, Cell: func(_ *View, i *T) string {
			return fmt.Sprintf("%.1fs", i.HeartbeatAgeSeconds)
		}},
		ofAge("age", KeepUseful, func(i *T) api.Time { return i.StartedAt }),
		onlyWide(ofText("session", KeepExtra, func(i *T) string { return i.Session })),
		onlyWide(ofText("address", KeepExtra, func(i *T) string { return i.Address })),
		onlyWide(ofText("app address", KeepExtra, func(i *T) string { return i.AppAddress })),
		onlyWide(ofText("application", KeepExtra, func(i *T) string { return ApplicationText(i.Application) })),
		onlyWide(ofText("revision", KeepExtra, func(i *T) string { return i.Revision })),
		{Title: "labels", Wide: true, Cell: func(_ *View, i *T) string { return labelText(i.Labels) }},
		ofOverrides("instance", func(i *T) api.Overrides { return i.Overrides }),
	}
}

// ApplicationText is who an application is, and whether it is given keys; empty: none is configured.
func ApplicationText(a *api.Application) string {
	if a == nil {
		return ""
	}
	text := "none"
	switch {
	case a.PID != 0:
		text = "pid " + strconv.Itoa(a.PID)
	case a.ID != "":
		text = a.ID[:min(len(a.ID), shortID)]
	}
	if a.Ready {
		return text + ", ready"
	}
	return text + ", not ready"
}

// shortID is how many characters of an ID a table shows.
const shortID = 8

func groupColumns() []Column[api.Group] {
	type T = api.Group
	columns := []Column[T]{
		ofText("name", KeepExtra, func(g *T) string { return g.Name }),
		ofCount("tasks", KeepUseful, func(g *T) int { return g.Tasks }),
	}
	for _, state := range api.TaskStates() {
		rare := state == api.Stopping || state == api.Paused || state == api.Done
		column := ofCount(string(state), worth(state), func(g *T) int { return g.InState(state) })
		if column.Wide = rare; state == api.Unassigned || state == api.Failed || state == api.Backoff {
			column.Cell = func(v *View, g *T) string {
				return v.red(g.InState(state) > 0, strconv.Itoa(g.InState(state)))
			}
		}
		columns = append(columns, column)
	}
	return append(
		columns,
		Column[T]{Title: "cap", Right: true, Cell: func(_ *View, g *T) string { return limitText(g.Cap) }},
		Column[T]{Title: "capacity", Right: true, Cell: func(_ *View, g *T) string { return limitText(g.Capacity) }},
		Column[T]{Title: "headroom", Keep: KeepUseful, Right: true, Cell: headroom},
		ofCount("imbalance", KeepExtra, func(g *T) int { return g.Imbalance }),
		ofOverrides("group", func(g *T) api.Overrides { return g.Overrides }),
	)
}

func headroom(v *View, g *api.Group) string {
	return v.red(g.Headroom != nil && *g.Headroom < 0, limitText(g.Headroom))
}

// red colours a text if something is wrong.
func (v *View) red(wrong bool, text string) string {
	if wrong {
		return v.Paint("31", text)
	}
	return text
}

// ofOverrides is a column of what operators asked for.
func ofOverrides[T any](scope string, list func(*T) api.Overrides) Column[T] {
	cell := func(v *View, item *T) string { return v.asked(list(item), scope) }
	return Column[T]{Title: "override", Prose: true, Wide: true, Cell: cell}
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
		ofAge("age", KeepUseful, func(e *T) api.Time { return e.Time }),
		ofText("type", KeepUseful, func(e *T) string { return e.Type }),
		ofText("reason", KeepReason, func(e *T) string { return e.Reason }),
		ofText("task", KeepState, func(e *T) string { return e.Key }),
		ofText("from", KeepUseful, func(e *T) string { return e.From }),
		ofText("to", KeepUseful, func(e *T) string { return e.To }),
		{Title: "time", Wide: true, Cell: func(_ *View, e *T) string { return e.Time.String() }},
		{Title: "token", Wide: true, Right: true, Cell: func(_ *View, e *T) string { return number(e.FencingToken) }},
		ofProse("message", KeepReason, saidBy),
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
		ofText("reason", KeepState, func(p *T) string { return p.Reason }),
		ofText("about", KeepReason, about),
		ofAge("age", KeepUseful, func(p *T) api.Time { return p.Since }),
		ofProse("message", KeepReason, func(p *T) string { return p.Message }),
	}
}

func about(p *api.Problem) string {
	what := cmp.Or(p.Task, p.Group)
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
		parts = append(parts, fmt.Sprintf("%s %d/%s", printable.Line(group), i.Owned[group], limit))
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
		ofText("key", KeepExtra, func(l *T) string { return l.Key }),
		ofText("kind", KeepUseful, func(l *T) string { return string(l.Kind) }),
		{Title: "instance", Keep: KeepState, Cell: func(_ *View, l *T) string { return holdersText(l) }},
		{Title: "held", Cell: func(_ *View, l *T) string { return heldText(l) }},
		ofCount("waiting", KeepState, func(l *T) int { return l.Waiting }),
		{Title: "token", Right: true, Cell: func(_ *View, l *T) string { return number(l.FencingToken) }},
		ofAge("age", KeepUseful, heldSince),
		ofText("reason", KeepReason, func(l *T) string { return l.Reason }),
		onlyWide(ofText("session", KeepExtra, func(l *T) string { return l.Session })),
		onlyWide(ofText("next", KeepExtra, func(l *T) string { return l.Next })),
		{Title: "queue", Wide: true, Cell: func(_ *View, l *T) string { return queueText(l) }},
		onlyWide(ofSpan("kept until", KeepExtra, func(l *T) api.Time { return l.KeptUntil })),
		{Title: "suspended", Wide: true, Cell: func(_ *View, l *T) string { return strconv.FormatBool(l.Suspended) }},
		onlyWide(ofProse("message", KeepReason, func(l *T) string { return l.Message })),
	}
}

func ownerColumns() []Column[api.KeyOwner] {
	type T = api.KeyOwner
	return []Column[T]{
		ofText("key", KeepExtra, func(o *T) string { return o.Key }),
		ofText("instance", KeepState, func(o *T) string { return o.Instance }),
		ofText("address", KeepState, func(o *T) string { return o.Address }),
		{Title: "token", Right: true, Cell: func(_ *View, o *T) string { return number(o.FencingToken) }},
		{Title: "valid for", Keep: KeepUseful, Right: true, Cell: func(_ *View, o *T) string {
			return fmt.Sprintf("%.1fs", o.ValidForSeconds)
		}},
		ofAge("age", KeepUseful, func(o *T) api.Time { return o.OwnedSince }),
		onlyWide(ofText("session", KeepExtra, func(o *T) string { return o.Session })),
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
		names[i] = cmp.Or(h.Instance, "?")
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
		names[i] = cmp.Or(w.Instance, "?")
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
		text += " " + v.ago(o.At) + " ago"
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
		ofText("kind", KeepState, kindText),
		ofText("about", KeepExtra, func(o *T) string { return o.Name }),
		ofText("to", KeepState, func(o *T) string { return o.To }),
		ofText("by", KeepUseful, func(o *T) string { return o.By }),
		ofAge("age", KeepUseful, func(o *T) api.Time { return o.At }),
		ofSpan("ends", KeepState, func(o *T) api.Time { return o.Until }),
		onlyWide(ofText("scope", KeepExtra, func(o *T) string { return o.Scope })),
		onlyWide(ofText("asked at", KeepExtra, func(o *T) string { return o.At.String() })),
		onlyWide(ofText("until", KeepExtra, func(o *T) string { return o.Until.String() })),
		ofProse("reason", KeepReason, func(o *T) string { return o.Reason }),
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
		return printable.Line(t.PinnedTo) + " (strict)"
	}
	return orDash(t.PinnedTo)
}

func runColumns() []Column[api.Run] {
	type T = api.Run
	return []Column[T]{
		ofText("scheduled", KeepExtra, func(r *T) string { return r.ScheduledAt.String() }),
		ofText("started", KeepExtra, func(r *T) string { return r.StartedAt.String() }),
		{Title: "took", Keep: KeepUseful, Right: true, Cell: took},
		{Title: "result", Keep: KeepState, Cell: func(v *View, r *T) string { return v.runResult(r.Result) }},
		{Title: "exit", Right: true, Cell: func(_ *View, r *T) string { return exitText(r) }},
		{Title: "attempt", Right: true, Cell: func(_ *View, r *T) string { return orDash(positive(r.Attempt)) }},
		ofText("instance", KeepUseful, func(r *T) string { return r.Instance }),
		{Title: "token", Wide: true, Right: true, Cell: func(_ *View, r *T) string { return number(r.FencingToken) }},
		ofProse("error", KeepReason, func(r *T) string { return r.Error }),
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
	return v.Paint(code, printable.Line(word))
}

package cli

import (
	"cmp"
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
		ofText("task", func(t *T) string { return t.Key }),
		{Title: "state", Cell: func(v *surface, t *T) string { return v.state(string(t.State)) }},
		ofText("instance", func(t *T) string { return t.Instance }),
		ofAge("age", func(t *T) api.Time { return t.StateSince }),
		ofCount("restarts", func(t *T) int { return t.Restarts }),
		ofText("reason", func(t *T) string { return t.Reason }),
		onlyWide(ofText("kind", func(t *T) string { return t.Kind })),
		{Title: "lag", Wide: true, Right: true, Cell: func(_ *surface, t *T) string { return orDash(behind(t.Lag)) }},
		{Title: "load", Wide: true, Right: true, Cell: func(_ *surface, t *T) string {
			return orDash(loadText(t.Load))
		}},
		onlyWide(ofNumber("token", func(t *T) int64 { return t.FencingToken })),
		{Title: "next run", Wide: true, Cell: func(v *surface, t *T) string { return v.age(t.NextRunAt) }},
		{Title: "pinned to", Wide: true, Cell: func(_ *surface, t *T) string { return pinText(t) }},
		ofOverrides("task", func(t *T) api.Overrides { return t.Overrides }),
		{Title: "labels", Wide: true, Cell: func(_ *surface, t *T) string { return labelText(t.Labels) }},
		onlyWide(ofText("message", func(t *T) string { return cmp.Or(t.LastError, t.Message) })),
	}
}

func instanceColumns() []column[api.Instance] {
	type T = api.Instance
	return []column[T]{
		ofText("name", func(i *T) string { return i.Name }),
		{Title: "state", Cell: func(v *surface, i *T) string { return v.stateOf(i) }},
		ofCount("tasks", func(i *T) int { return total(i.Owned) }),
		{Title: "owned/cap", Cell: func(_ *surface, i *T) string { return ownedText(i) }},
		ofText("zone", func(i *T) string { return i.Zone }),
		ofText("version", func(i *T) string { return i.Version }),
		{Title: "heartbeat", Right: true, Cell: func(_ *surface, i *T) string {
			return fmt.Sprintf("%.1fs", i.HeartbeatAgeSeconds)
		}},
		ofAge("age", func(i *T) api.Time { return i.StartedAt }),
		onlyWide(ofText("session", func(i *T) string { return i.Session })),
		onlyWide(ofText("address", func(i *T) string { return i.Address })),
		onlyWide(ofText("app address", func(i *T) string { return i.AppAddress })),
		onlyWide(ofText("application", func(i *T) string { return applicationText(i.Application) })),
		onlyWide(ofText("revision", func(i *T) string { return i.Revision })),
		{Title: "labels", Wide: true, Cell: func(_ *surface, i *T) string { return labelText(i.Labels) }},
		ofOverrides("instance", func(i *T) api.Overrides { return i.Overrides }),
	}
}

// applicationText is who an application is, and whether it is given keys; empty: none is configured.
func applicationText(a *api.Application) string {
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

func groupColumns() []column[api.Group] {
	type T = api.Group
	columns := []column[T]{
		ofText("name", func(g *T) string { return g.Name }),
		ofCount("tasks", func(g *T) int { return g.Tasks }),
	}
	for _, state := range api.TaskStates() {
		rare := state == api.Stopping || state == api.Paused || state == api.Done
		column := ofCount(string(state), func(g *T) int { return g.InState(state) })
		if column.Wide = rare; state == api.Unassigned || state == api.Failed || state == api.Backoff {
			column.Cell = func(v *surface, g *T) string {
				return v.red(g.InState(state) > 0, strconv.Itoa(g.InState(state)))
			}
		}
		columns = append(columns, column)
	}
	return append(
		columns,
		column[T]{Title: "cap", Right: true, Cell: func(_ *surface, g *T) string { return limitText(g.Cap) }},
		column[T]{Title: "capacity", Right: true, Cell: func(_ *surface, g *T) string { return limitText(g.Capacity) }},
		column[T]{Title: "headroom", Right: true, Cell: headroom},
		ofCount("imbalance", func(g *T) int { return g.Imbalance }),
		ofOverrides("group", func(g *T) api.Overrides { return g.Overrides }),
	)
}

func headroom(v *surface, g *api.Group) string {
	return v.red(g.Headroom != nil && *g.Headroom < 0, limitText(g.Headroom))
}

// red colours a text if something is wrong.
func (v *surface) red(wrong bool, text string) string {
	if wrong {
		return v.paint("31", text)
	}
	return text
}

// ofOverrides is a column of what operators asked for.
func ofOverrides[T any](scope string, list func(*T) api.Overrides) column[T] {
	cell := func(v *surface, item *T) string { return v.asked(list(item), scope) }
	return column[T]{Title: "override", Wide: true, Cell: cell}
}

func eventColumns() []column[api.Event] {
	type T = api.Event
	return []column[T]{
		ofAge("age", func(e *T) api.Time { return e.Time }),
		ofText("type", func(e *T) string { return e.Type }),
		ofText("reason", func(e *T) string { return e.Reason }),
		ofText("task", func(e *T) string { return e.Key }),
		ofText("from", func(e *T) string { return e.From }),
		ofText("to", func(e *T) string { return e.To }),
		{Title: "time", Wide: true, Cell: func(_ *surface, e *T) string { return e.Time.String() }},
		onlyWide(ofNumber("token", func(e *T) int64 { return e.FencingToken })),
		ofText("message", saidBy),
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
		{Title: "severity", Cell: func(v *surface, p *T) string { return v.state(string(p.Severity)) }},
		ofText("reason", func(p *T) string { return p.Reason }),
		ofText("about", about),
		ofAge("age", func(p *T) api.Time { return p.Since }),
		ofText("message", func(p *T) string { return p.Message }),
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
		parts = append(parts, fmt.Sprintf("%s %d/%s", Printable(group), i.Owned[group], limit))
	}
	return orDash(strings.Join(parts, ", "))
}

func labelText(labels map[string]string) string { return orDash(Labels(labels)) }

// Labels writes labels as a selector has them: "a=b,c=d".
func Labels(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, ",")
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
		ofText("key", func(l *T) string { return l.Key }),
		ofText("kind", func(l *T) string { return string(l.Kind) }),
		{Title: "instance", Cell: func(_ *surface, l *T) string { return holdersText(l) }},
		{Title: "held", Cell: func(_ *surface, l *T) string { return heldText(l) }},
		ofCount("waiting", func(l *T) int { return l.Waiting }),
		ofNumber("token", func(l *T) int64 { return l.FencingToken }),
		ofAge("age", heldSince),
		ofText("reason", func(l *T) string { return l.Reason }),
		onlyWide(ofText("session", func(l *T) string { return l.Session })),
		onlyWide(ofText("next", func(l *T) string { return l.Next })),
		{Title: "queue", Wide: true, Cell: func(_ *surface, l *T) string { return queueText(l) }},
		onlyWide(ofSpan("kept until", func(l *T) api.Time { return l.KeptUntil })),
		onlyWide(ofText("suspended", func(l *T) string { return strconv.FormatBool(l.Suspended) })),
		onlyWide(ofText("message", func(l *T) string { return l.Message })),
	}
}

func ownerColumns() []column[api.KeyOwner] {
	type T = api.KeyOwner
	return []column[T]{
		ofText("key", func(o *T) string { return o.Key }),
		ofText("instance", func(o *T) string { return o.Instance }),
		ofText("address", func(o *T) string { return o.Address }),
		ofNumber("token", func(o *T) int64 { return o.FencingToken }),
		{Title: "valid for", Right: true, Cell: func(_ *surface, o *T) string {
			return fmt.Sprintf("%.1fs", o.ValidForSeconds)
		}},
		ofAge("age", func(o *T) api.Time { return o.OwnedSince }),
		onlyWide(ofText("session", func(o *T) string { return o.Session })),
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
func (v *surface) asked(list api.Overrides, scope string) string {
	parts := make([]string, len(list))
	for i := range list {
		parts[i] = v.override(&list[i], scope)
	}
	return orDash(strings.Join(parts, "; "))
}

func (v *surface) override(o *api.Override, scope string) string {
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
func (v *surface) until(t api.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339) + " (" + v.age(t) + ")"
}

func overrideColumns() []column[api.Override] {
	type T = api.Override
	return []column[T]{
		ofText("kind", kindText),
		ofText("about", func(o *T) string { return o.Name }),
		ofText("to", func(o *T) string { return o.To }),
		ofText("by", func(o *T) string { return o.By }),
		ofAge("age", func(o *T) api.Time { return o.At }),
		ofSpan("ends", func(o *T) api.Time { return o.Until }),
		onlyWide(ofText("scope", func(o *T) string { return o.Scope })),
		onlyWide(ofText("asked at", func(o *T) string { return o.At.String() })),
		onlyWide(ofText("until", func(o *T) string { return o.Until.String() })),
		ofText("reason", func(o *T) string { return o.Reason }),
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
func (v *surface) stateOf(i *api.Instance) string {
	state := v.state(string(i.State))
	if i.State == api.Live && i.Overrides.Find("cordon") != nil {
		state += "," + v.paint("33", "cordoned")
	}
	return state
}

// pinText is where a task is pinned.
func pinText(t *api.Task) string {
	if pin := t.Overrides.Find("pin"); pin != nil && pin.Strict {
		return Printable(t.PinnedTo) + " (strict)"
	}
	return orDash(t.PinnedTo)
}

func runColumns() []column[api.Run] {
	type T = api.Run
	return []column[T]{
		ofText("scheduled", func(r *T) string { return r.ScheduledAt.String() }),
		ofText("started", func(r *T) string { return r.StartedAt.String() }),
		{Title: "took", Right: true, Cell: took},
		{Title: "result", Cell: func(v *surface, r *T) string { return v.runResult(r.Result) }},
		{Title: "exit", Right: true, Cell: func(_ *surface, r *T) string { return exitText(r) }},
		{Title: "attempt", Right: true, Cell: func(_ *surface, r *T) string { return orDash(positive(r.Attempt)) }},
		ofText("instance", func(r *T) string { return r.Instance }),
		onlyWide(ofNumber("token", func(r *T) int64 { return r.FencingToken })),
		ofText("error", func(r *T) string { return r.Error }),
	}
}

// took is how long a run took, or goes on for.
func took(v *surface, r *api.Run) string {
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

func (v *surface) runResult(word string) string {
	code := ""
	switch word {
	case "Succeeded":
		code = "32"
	case "Failed", "TimedOut":
		code = "31"
	case "Interrupted", "Skipped", "Running":
		code = "33"
	}
	return v.paint(code, Printable(word))
}

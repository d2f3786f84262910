package cli

import (
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

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

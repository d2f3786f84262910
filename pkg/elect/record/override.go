package record

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// OverrideKind is what an operator asks for.
type OverrideKind string

// The kinds of overrides.
const (
	OverrideDrain OverrideKind = "drain" // of an instance: it gives every key away
	OverridePause OverrideKind = "pause" // of a task: it runs nowhere
	OverridePin   OverrideKind = "pin"   // of a task: it stays on an instance
	OverrideRerun OverrideKind = "rerun" // of a task: what is done or failed runs again
)

// Scope is what an override is about.
type Scope string

// The scopes of overrides.
const (
	ScopeTask     Scope = "task"
	ScopeGroup    Scope = "group"
	ScopeInstance Scope = "instance"
)

// Override is what an operator asked for. It is kept by the name of what it is about, so it outlives sessions.
type Override struct {
	Kind  OverrideKind `json:"-"`
	Scope Scope        `json:"-"`
	Name  string       `json:"-"` // a key, a group or an instance, as Scope says
	Rev   int64        `json:"-"`

	ID     string `json:"id,omitempty"` // of the request: the same request twice is one override
	To     string `json:"to,omitempty"` // pin: an instance, a pattern of one, or zone=Z
	Strict bool   `json:"strict,omitempty"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	At     int64  `json:"at,omitempty"` // store's clock, Unix ms
}

// Doc is o as a document, written under id.
func (o Override) Doc(id store.WriterID) store.Doc {
	return store.Doc{
		Kind: store.KindOverride, ID: string(o.Kind) + "/" + string(o.Scope) + "/" + o.Name, Rev: o.Rev, WriterID: id,
		State: string(o.Kind), Body: mustJSON(o),
	}
}

// OverrideFrom reads an override from its document. What it is about is in the document's ID and counts also when
// the body is malformed.
func OverrideFrom(d store.Doc) (Override, error) {
	var o Override
	err := decode(d, &o)
	parts := strings.SplitN(d.ID, "/", 3)
	var c cleaner
	if len(parts) < 3 {
		c.bad("id", "%.80q: want KIND/SCOPE/NAME", d.ID)
		parts = append(parts, "", "")
	}
	o.Kind, o.Scope, o.Name, o.Rev = OverrideKind(parts[0]), Scope(parts[1]), parts[2], d.Rev
	cleanText(&c, "id", &o.ID)
	cleanText(&c, "to", &o.To)
	cleanText(&c, "by", &o.By)
	cleanText(&c, "reason", &o.Reason)
	c.moment("at", &o.At)
	return o, c.err(d, err)
}

// String names the override for people.
func (o Override) String() string { return fmt.Sprintf("%s of %s %s", o.Kind, o.Scope, o.Name) }

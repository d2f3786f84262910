package record

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// OverrideKind is what an operator asks for.
type OverrideKind string

// The kinds of overrides that stand until they are taken back.
const (
	OverrideDrain  OverrideKind = "drain"  // of an instance: it hands every key over
	OverrideCordon OverrideKind = "cordon" // of an instance: it gets no new keys, and keeps what it has
	OverridePause  OverrideKind = "pause"  // of a task, or of a group with all that it will have: it runs nowhere
	OverridePin    OverrideKind = "pin"    // of a task: it stays on an instance
)

// The kinds of overrides that ask for one effect. Those of a task name the token that its key had when they were asked
// for. A key with a larger one has had the effect, and the request is over.
const (
	OverrideRestart   OverrideKind = "restart"   // of a task: the run under the token ends, and another starts
	OverrideRerun     OverrideKind = "rerun"     // of a task: an outcome under the token, or before it, is forgotten
	OverrideMove      OverrideKind = "move"      // of a task: one hand-over to an instance
	OverrideTrigger   OverrideKind = "trigger"   // of a task with ticks: one tick more, numbered by Token
	OverrideRebalance OverrideKind = "rebalance" // of a group: it is spread evenly at once
	// OverrideResume is of a task or a group: its pause ended at Resumed. Ticks up to then do not count.
	OverrideResume OverrideKind = "resume"
)

// MaxAsked is how many characters (Unicode code points) each text of an override has at most.
const MaxAsked = 1024

// ValidateAsked says what is wrong with a text of an override: its request, to, by or reason. It is UTF-8 without NUL,
// and has at most [MaxAsked] characters.
func ValidateAsked(text string) error {
	switch n := utf8.RuneCountInString(text); {
	case !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0:
		return fmt.Errorf("%.80q: want UTF-8 without NUL bytes", text)
	case n > MaxAsked:
		return fmt.Errorf("%d characters; at most %d are allowed", n, MaxAsked)
	default:
		return nil
	}
}

// CounterOverrides is the ID of the counter, next to those of groups, that is incremented when overrides have changed.
const CounterOverrides = "~overrides"

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

	Request string `json:"id,omitempty"` // the same request twice is one override
	To      string `json:"to,omitempty"` // pin: an instance, a pattern of one, or zone=Z; move: an instance
	Strict  bool   `json:"strict,omitempty"`
	Token   int64  `json:"token,omitempty"` // of the key when one effect was asked for; trigger: the request's number
	By      string `json:"by,omitempty"`
	Reason  string `json:"reason,omitempty"`
	At      int64  `json:"at,omitempty"`   // store's clock, Unix ms
	Seen    int64  `json:"seen,omitempty"` // drain, cordon, pin: when the instance was last known to live, likewise
	// Until is when it ends by itself, likewise; 0: it does not. resume: when the pause ended that ended so.
	Until int64 `json:"until,omitempty"`
}

// Ended says whether an override that stands has ended by itself at a time of the store's clock, Unix ms.
func (o Override) Ended(now int64) bool { return !o.Kind.Once() && o.Until > 0 && o.Until <= now }

// Resumed is when the pause ended that a resume is of, on the store's clock, Unix ms.
func (o Override) Resumed() int64 {
	if o.Until > 0 {
		return o.Until
	}
	return o.At
}

// MovedTo is what was asked for as if it had been at a time of the store's clock, Unix ms: it lasts as long as before.
func (o Override) MovedTo(now int64) Override {
	if o.Until > 0 {
		o.Until = max(1, o.Until-(o.At-now))
	}
	o.At, o.Seen = now, min(o.Seen, now)
	return o
}

// Once says whether overrides of the kind ask for one effect; else they stand until they are taken back.
func (k OverrideKind) Once() bool {
	switch k {
	case OverrideRestart, OverrideRerun, OverrideMove, OverrideTrigger, OverrideRebalance, OverrideResume:
		return true
	default:
		return false
	}
}

// Over says whether a request for one effect has had it, or something newer has happened since, as the lock of its key
// shows. Those that stand, and those of groups, are never over by a lock.
func (o Override) Over(lock Lock) bool {
	switch o.Kind {
	case OverrideRestart, OverrideMove:
		return lock.Token > o.Token
	case OverrideRerun:
		return lock.Status.Outcome == nil || lock.Status.Outcome.Token > o.Token
	case OverrideTrigger:
		return lock.Status.LastTrigger >= o.Token
	case OverrideResume:
		return true
	default:
		return false
	}
}

// Doc is o as a document, written under id.
func (o Override) Doc(id driver.WriterID) driver.Doc {
	d := driver.Doc{
		Kind: driver.KindOverride, ID: o.ID(), Rev: o.Rev, WriterID: id, State: string(o.Kind), Body: mustJSON(o),
	}
	if o.Kind.Once() {
		d.Expires = o.At + driver.KindOverride.Info().Retention.Milliseconds()
	}
	return d
}

// ID is that of the override's document.
func (o Override) ID() string { return string(o.Kind) + "/" + string(o.Scope) + "/" + o.Name }

// OverrideFrom reads an override from its document. What it is about is in the document's ID and counts also when
// the body is malformed.
func OverrideFrom(d driver.Doc) (Override, error) { return Guarded(d, readOverride) }

func readOverride(d driver.Doc) (Override, error) {
	var o Override
	err := decode(d, &o)
	parts := strings.SplitN(d.ID, "/", 3)
	var c cleaner
	if len(parts) < 3 {
		c.bad("id", "%.80q: want KIND/SCOPE/NAME", d.ID)
		parts = append(parts, "", "")
	}
	o.Kind, o.Scope, o.Name, o.Rev = OverrideKind(parts[0]), Scope(parts[1]), parts[2], d.Rev
	c.asked("id", &o.Request)
	c.asked("to", &o.To)
	c.asked("by", &o.By)
	c.asked("reason", &o.Reason)
	c.number("token", &o.Token, driver.MaxRev)
	c.moment("at", &o.At)
	c.moment("seen", &o.Seen)
	c.moment("until", &o.Until)
	return o, c.err(d, err)
}

// String names the override for people.
func (o Override) String() string { return fmt.Sprintf("%s of %s %s", o.Kind, o.Scope, o.Name) }

// Whom is [ByWhom] of the override.
func (o Override) Whom() string { return ByWhom(o.By, o.Reason) }

// ByWhom says for people who asked for something and why, as the end of a sentence: " by alice (new kernel)". It is
// empty when neither is known.
func ByWhom(by, reason string) string {
	text := ""
	if by != "" {
		text = " by " + by
	}
	if reason != "" {
		text += " (" + reason + ")"
	}
	return text
}

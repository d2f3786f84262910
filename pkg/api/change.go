package api

import (
	"encoding/json"
	"slices"
)

// Verb is a change that can be asked for.
type Verb string

// The verbs, as the paths of the API and the command line name them.
const (
	Drain     Verb = "drain"     // of an instance: hand over everything, and take nothing until undrain
	Undrain   Verb = "undrain"   // of an instance
	Cordon    Verb = "cordon"    // of an instance: take nothing new
	Uncordon  Verb = "uncordon"  // of an instance
	Pause     Verb = "pause"     // of tasks, or of a group as a whole
	Resume    Verb = "resume"    // of tasks, or of a group as a whole
	Restart   Verb = "restart"   // of tasks that run
	Rerun     Verb = "rerun"     // of tasks that are done or failed
	Trigger   Verb = "trigger"   // of tasks with ticks: one more now
	Pin       Verb = "pin"       // of tasks: keep them on an instance
	Unpin     Verb = "unpin"     // of tasks
	Move      Verb = "move"      // of tasks: hand them over once
	Rebalance Verb = "rebalance" // of a group: spread it now
)

// ChangeRequest is the body of a request for a change. All fields may be left out, but for Instance of a pin or a move.
type ChangeRequest struct {
	Instance string `json:"instance,omitzero"` // pin: an instance, a pattern, or zone=ZONE; move: an instance
	Strict   bool   `json:"strict,omitzero"`   // pin: rather stay unassigned than run elsewhere
	// pause, pin, drain, cordon: end by itself after this, 1s to 8760h, as 1h30m
	For    string `json:"for,omitzero"`
	Reason string `json:"reason,omitzero"` // why, for people; at most 1,024 characters
	By     string `json:"by,omitzero"`     // who asks, where no token says so
	DryRun bool   `json:"dryRun,omitzero"` // change nothing, and say what would move
	ID     string `json:"id,omitzero"`     // the same request twice has one effect

	// Of requests for many tasks: names with *, ? and [a-z], or all of a group, and labels.
	Group    string   `json:"group,omitzero"`
	Tasks    []string `json:"tasks,omitzero"`
	Selector string   `json:"selector,omitzero"`
}

// ChangeResult is what became of a change, or would: of a request for many tasks, or of a dry run. Its lists are never
// null.
type ChangeResult struct {
	Changed   []string      `json:"changed"`   // keys, a group or an instance
	Unchanged []string      `json:"unchanged"` // all was as asked already
	Refused   []Refusal     `json:"refused"`
	Moves     []PlannedMove `json:"moves"` // what would move, of a dry run
}

// UnchangedHeader is the header of an answer to a change of one object of which all was as asked already.
const UnchangedHeader = "Shardctl-Unchanged"

// Refusal says why something cannot be, in one word and in a sentence.
type Refusal struct {
	Name    string `json:"name"` // a key, a group or an instance
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// PlannedMove is one key that would change its owner.
type PlannedMove struct {
	Key    string `json:"key"`
	From   string `json:"from"` // an instance; empty: none
	To     string `json:"to"`
	Reason string `json:"reason"`
}

// The reasons of refusals. [ReasonNotFound] is one too: nothing of that name is known.
const (
	RefusedNotRunning  = "NotRunning"  // there is no run to restart
	RefusedNotEnded    = "NotEnded"    // there is no outcome to forget
	RefusedNoTicks     = "NoTicks"     // it is fired by no schedule
	RefusedNotOwned    = "NotOwned"    // no live instance owns it
	RefusedNotLive     = "NotLive"     // the instance does not live, or takes nothing new
	RefusedNoCapacity  = "NoCapacity"  // the instance owns as many as it may
	RefusedNotEligible = "NotEligible" // the group's selector leaves the instance out
	RefusedPaused      = "Paused"      // it, or its group, is paused
	RefusedPinned      = "Pinned"      // it is pinned strictly elsewhere
)

// Override is what an operator asked for, and who, when and why. Those that stand are shown until they are taken back,
// requests for one effect until they have had it.
type Override struct {
	Kind   string `json:"kind"`  // one of drain, cordon, pause, pin, restart, rerun, move, trigger and rebalance
	Scope  string `json:"scope"` // one of task, group and instance
	Name   string `json:"name"`  // of what it is about: a key, a group or an instance
	To     string `json:"to"`    // of a pin: an instance, a pattern or zone=ZONE; of a move: an instance
	Strict bool   `json:"strict"`
	By     string `json:"by"` // the name of a token, or of a user of the operating system
	Reason string `json:"reason"`
	At     Time   `json:"at"`
	Until  Time   `json:"until"` // when it ends by itself, by the store's clock; zero: when it is taken back
}

// Overrides is a list of them, the newest first. Nil is written as [].
type Overrides []Override

// MarshalJSON writes nil as [].
func (o Overrides) MarshalJSON() ([]byte, error) {
	return json.Marshal(notNil([]Override(o)))
}

// Find is the first of a kind, nil when there is none.
func (o Overrides) Find(kind string) *Override {
	i := slices.IndexFunc(o, func(x Override) bool { return x.Kind == kind })
	if i < 0 {
		return nil
	}
	return &o[i]
}

// Role is what a token allows. Each role includes those before it.
type Role string

// The roles, as the file of tokens names them.
const (
	RoleNone    Role = "none"    // no token was given: it sees all but what tasks write
	RoleRead    Role = "read"    // it sees all
	RoleOperate Role = "operate" // it restarts, reruns, triggers, pauses and resumes as well
	RoleAdmin   Role = "admin"   // it asks for every change
)

// Caller is who asks, and what the listener that answers does for them: /api/v1/whoami.
type Caller struct {
	// of the token; local where changes need none; empty without a token
	Name  string `json:"name"`
	Role  Role   `json:"role"`  // what the token allows; each role includes those before it
	Verbs []Verb `json:"verbs"` // changes that this listener takes from the caller, in alphabetical order; never null
}

// MarshalJSON writes a list that is nil as an empty one.
func (c Caller) MarshalJSON() ([]byte, error) {
	type plain Caller
	c.Verbs = notNil(c.Verbs)
	return json.Marshal(plain(c))
}

// May says whether the listener takes a change of this kind from the caller.
func (c Caller) May(verb Verb) bool { return slices.Contains(c.Verbs, verb) }

package api

import (
	"encoding/json"
	"slices"
)

// Override is what an operator asked for, and who, when and why. Those that stand are shown until they are taken back,
// requests for one effect until they have had it.
type Override struct {
	Kind   string `json:"kind"`  // drain, cordon, pause, pin, restart, rerun, move, trigger or rebalance
	Scope  string `json:"scope"` // task, group or instance
	Name   string `json:"name"`  // of what it is about: a key, a group or an instance
	To     string `json:"to"`    // pin: an instance, a pattern or zone=ZONE; move: an instance
	Strict bool   `json:"strict"`
	By     string `json:"by"` // the name of a token, or of a user of the operating system
	Reason string `json:"reason"`
	At     Time   `json:"at"`
	Until  Time   `json:"until"` // when it ends by itself, on the store's clock; none: when it is taken back
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

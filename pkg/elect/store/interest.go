package store

import (
	"fmt"
	"slices"
)

// MaxInterest is how many keys, and how many groups, one [Interest] may name.
const MaxInterest = 1000

// Interest says which changes a watcher is told of. The zero Interest asks for all counters, overrides and sessions' states,
// and for no locks. A store may tell more than was asked for, never less.
type Interest struct {
	// Session is told of locks that are reserved for it.
	Session string
	// Keys are IDs of locks: the watcher is told when nobody owns one any more, and when it is deleted.
	Keys []string
	// Groups narrow documents of groups, counters among them; nil: all groups.
	Groups []string
	// Kinds are the kinds to be told of; nil: all that the table has watchers told of. Locks come by Session and Keys alone.
	Kinds []Kind
}

// Validate refuses an interest that no store can take; the error wraps [ErrMalformed] or [ErrTooLarge]. Stores call it before
// they watch.
func (i Interest) Validate() error {
	for _, kind := range i.Kinds {
		if err := ValidateKind(kind); err != nil {
			return err
		}
	}
	if len(i.Keys) > MaxInterest || len(i.Groups) > MaxInterest {
		return fmt.Errorf("%w: interest in %d keys and %d groups, at most %d each", ErrTooLarge, len(i.Keys), len(i.Groups), MaxInterest)
	}
	for _, text := range slices.Concat([]string{i.Session}, i.Keys, i.Groups) {
		if err := ValidateTexts(Doc{ID: text}); err != nil {
			return fmt.Errorf("interest: %w", err)
		}
	}
	return nil
}

// WantsKind says whether changes of a kind may concern the watcher.
func (i Interest) WantsKind(kind Kind) bool {
	switch kind.Info().Told {
	case ToldNothing:
		return false
	case ToldOwners:
		return i.Session != "" || len(i.Keys) > 0
	case ToldAll, ToldStates:
	}
	return i.Kinds == nil || slices.Contains(i.Kinds, kind)
}

// Wants says whether the watcher is told of a change for which [Notable] is true. Only the document's Kind, ID, Group and Next
// count; Next is empty for a deleted one.
func (i Interest) Wants(d Doc) bool {
	if !i.WantsKind(d.Kind) {
		return false
	}
	if d.Kind.Info().Told == ToldOwners {
		return d.Next != "" && d.Next == i.Session || slices.Contains(i.Keys, d.ID)
	}
	group := d.Group
	if d.Kind == KindGroup {
		group = d.ID
	}
	return i.Groups == nil || group == "" || slices.Contains(i.Groups, group)
}

// Notable says whether any watcher can be told that old became d; nil is absent. Heartbeats and claims are not.
func Notable(old, d *Doc) bool {
	named := d
	if d == nil {
		named = old
	}
	if named == nil {
		return false
	}
	switch named.Kind.Info().Told {
	case ToldAll:
		return true
	case ToldStates:
		return old == nil || d == nil || old.State != d.State
	case ToldOwners:
		return d == nil || d.Next != "" || old != nil && old.Session != "" && d.Session == ""
	case ToldNothing:
	}
	return false
}

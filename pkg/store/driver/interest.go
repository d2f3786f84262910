package driver

import (
	"fmt"
	"slices"
)

// MaxInterest is how many keys, and how many groups, one [Interest] may name.
const MaxInterest = 1000

// Interest says which changes a watcher is notified of. The zero Interest asks for all counters, overrides and
// sessions' states, and for no locks or mutexes. A store may send more than was asked for, never less.
type Interest struct {
	// Session asks for locks and mutexes that are reserved for it.
	Session string
	// Keys are IDs of locks or mutexes: notifications come when one has no owner any more, and when it is deleted.
	Keys []string
	// Groups narrow documents of groups, counters among them; nil: all groups.
	Groups []string
	// Kinds are the kinds asked for; nil: all that the table allows. Locks and mutexes come by Session and Keys alone.
	Kinds []Kind
}

// Validate refuses an interest that no store can take; the error wraps [ErrMalformed] or [ErrTooLarge]. Stores call it
// before they watch.
func (i Interest) Validate() error {
	for _, kind := range i.Kinds {
		if err := ValidateKind(kind); err != nil {
			return err
		}
	}
	if len(i.Keys) > MaxInterest || len(i.Groups) > MaxInterest {
		return fmt.Errorf(
			"%w: interest in %d keys and %d groups, at most %d each", ErrTooLarge, len(i.Keys), len(i.Groups),
			MaxInterest,
		)
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
	switch kind.Info().Notify {
	case NotifyNever:
		return false
	case NotifyFree:
		return i.Session != "" || len(i.Keys) > 0
	case NotifyAlways, NotifyStates:
	}
	return i.Kinds == nil || slices.Contains(i.Kinds, kind)
}

// Wants says whether the watcher is notified of a change for which [Notable] is true. Only the document's Kind, ID,
// Group and Next count; Next is empty for a deleted one.
func (i Interest) Wants(d Doc) bool {
	if !i.WantsKind(d.Kind) {
		return false
	}
	if d.Kind.Info().Notify == NotifyFree {
		return d.Next != "" && d.Next == i.Session || slices.Contains(i.Keys, d.ID)
	}
	group := d.Group
	if d.Kind == KindGroup {
		group = d.ID
	}
	return i.Groups == nil || group == "" || slices.Contains(i.Groups, group)
}

// Notable says whether any watcher may be notified that old became d; nil is absent. Heartbeats and claims are not.
func Notable(old, d *Doc) bool {
	named := d
	if d == nil {
		named = old
	}
	if named == nil {
		return false
	}
	switch named.Kind.Info().Notify {
	case NotifyAlways:
		return true
	case NotifyStates:
		return old == nil || d == nil || old.State != d.State
	case NotifyFree:
		return d == nil || d.Next != "" || old != nil && old.Session != "" && d.Session == ""
	case NotifyNever:
	}
	return false
}

// notifications is how many of them wait for a slow reader before one Resync takes their place.
const notifications = 256

// Notifier is a watcher's channel as a store writes to it: never waiting, and never losing anything unsaid. When the
// reader is slow it takes out what is waiting and puts one Resync in their place. Only one goroutine at a time may
// call its methods, except C.
type Notifier struct{ c chan Notification }

// NewNotifier makes a notifier that begins with a Resync.
func NewNotifier() *Notifier {
	n := &Notifier{c: make(chan Notification, notifications)}
	n.c <- Notification{Resync: true}
	return n
}

// C is what the watcher reads.
func (n *Notifier) C() <-chan Notification { return n.c }

// Send hands one notification over.
func (n *Notifier) Send(one Notification) {
	select {
	case n.c <- one:
		return
	default:
	}
	for {
		select {
		case <-n.c:
			continue
		default:
		}
		break
	}
	n.c <- Notification{Resync: true}
}

// Close ends the channel; it must not be called twice.
func (n *Notifier) Close() { close(n.c) }

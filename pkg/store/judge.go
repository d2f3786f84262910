package store

import (
	"errors"
	"fmt"
	"slices"
)

// Judge says how a Put or Delete ends that was tested against the document as found (nil: absent), from what the
// document alone shows. Applied is true of found as it is: it is either the change's own write, or the condition
// holds. In the second case apply is true and the caller is to write now.
//
// A store keeps no history. So a change that was sent before, written, and written over is not distinguished from one
// that came too late the first time. Both are Overtaken, unless the revision proves that it cannot have been written.
// Revisions only rise while a document exists. Had a Put been written, the document could not be at or below its
// revision under another writer ID. A document above the revision that a Delete names may have been created again
// since. So Refused is a proof, up to a document that was deleted and created again at a lower revision, and Overtaken
// is not.
func Judge(c Change, found *Doc) (out Outcome, apply bool) {
	switch {
	case c.Op == Put && found != nil && found.WriterID == c.Doc.WriterID && found.Rev == c.Doc.Rev:
		return Outcome{Status: Applied}, false
	case c.Op == Increment, found == nil && c.IfRev == 0, found != nil && found.Rev == c.IfRev:
		return Outcome{Status: Applied}, true
	case found == nil:
		return Outcome{Status: Overtaken}, false
	case c.Op == Put && found.Rev > c.Doc.Rev, c.Op == Delete && found.Rev > c.IfRev:
		return Outcome{Status: Overtaken, Doc: found}, false
	default:
		return Outcome{Status: Refused, Doc: found}, false
	}
}

// AllUnknown is the outcomes of n changes that were sent, or were to be sent, when err happened. Err is made to wrap
// [ErrUnavailable].
func AllUnknown(n int, err error) []Outcome {
	if !errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return slices.Repeat([]Outcome{{Status: Unknown, Err: err}}, n)
}

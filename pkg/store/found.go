package store

import (
	"errors"
	"fmt"
)

// MaxRev is the largest revision at which a document counts as one. Revisions follow a clock in milliseconds and stay
// far below it. Beyond it a database that keeps numbers as doubles could not distinguish two of them.
const MaxRev = 1 << 53

// Unreadable is a document that somebody has edited out of band, so that it cannot be read, or not all of it. It is
// among [Reply].Docs only where the rest of it is a document.
type Unreadable struct {
	Kind Kind
	ID   string // of one that is no text: as its database shows it
	Err  error  // why, never nil
}

// CheckFound says why what a store found is no document: it could not be changed by compare-and-set. Stores treat it as
// absent, in every method, and let a creation take its place. Else an edit out of band could block a document for ever.
func CheckFound(d Doc) error {
	if d.Rev <= 0 || d.Rev > MaxRev {
		return fmt.Errorf("rev: %d: want 1 to %d", d.Rev, int64(MaxRev))
	}
	if d.ID == "" {
		return errors.New("id: missing or no text")
	}
	if err := ValidateTexts(Doc{ID: d.ID}); err != nil {
		return fmt.Errorf("id: %w", err)
	}
	return nil
}

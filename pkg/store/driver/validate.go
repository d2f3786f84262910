package driver

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrMalformed says a change or a read makes no sense in itself: an unknown kind, an empty ID, a revision that does not
// rise.
var ErrMalformed = errors.New("malformed")

// MaxMark is the largest revision that an Increment may carry: the end of the year 9999 in Unix ms. Larger ones were
// written out of band, and soon nothing could be created above them.
const MaxMark = 253_402_300_799_999

// ValidateChanges is what every store checks before it sends anything, so that all of them refuse the same changes. The
// error names the first bad change and wraps [ErrMalformed] or [ErrTooLarge].
//
// Texts are valid UTF-8 without NUL bytes and at most [MaxText] bytes; a body has at most [MaxBody] bytes; no
// document is named twice.
func ValidateChanges(changes []Change) error {
	type name struct {
		kind Kind
		id   string
	}
	var seen map[name]struct{}
	if len(changes) > 1 {
		seen = make(map[name]struct{}, len(changes))
	}
	for i, c := range changes {
		if err := validateChange(c); err != nil {
			return fmt.Errorf("change %d: %s %.80q: %w", i, c.Doc.Kind, c.Doc.ID, err)
		}
		if seen == nil {
			continue
		}
		n := name{c.Doc.Kind, c.Doc.ID}
		if _, twice := seen[n]; twice {
			return fmt.Errorf("change %d: %s %.80q: %w: named twice in one batch", i, n.kind, n.id, ErrMalformed)
		}
		seen[n] = struct{}{}
	}
	return nil
}

func validateChange(c Change) error {
	if !c.Doc.Kind.Valid() {
		return fmt.Errorf("%w: unknown kind, want one of %v", ErrMalformed, Kinds())
	}
	if c.Doc.ID == "" {
		return fmt.Errorf("%w: empty ID", ErrMalformed)
	}
	if err := ValidateTexts(c.Doc); err != nil {
		return err
	}
	switch c.Op {
	case Put:
		return validatePut(c)
	case Delete:
		if c.IfRev <= 0 {
			return fmt.Errorf("%w: Delete with IfRev %d, want above 0", ErrMalformed, c.IfRev)
		}
		return nil
	case Increment:
		if c.Doc.Kind != KindGroup {
			return fmt.Errorf("%w: Increment, want kind %s", ErrMalformed, KindGroup)
		}
		if c.Doc.Rev < 0 || c.Doc.Rev > MaxMark {
			return fmt.Errorf("%w: Increment with Rev %d, want 0 to %d", ErrMalformed, c.Doc.Rev, int64(MaxMark))
		}
		return nil
	default:
		return fmt.Errorf("%w: unknown operation %d", ErrMalformed, c.Op)
	}
}

func validatePut(c Change) error {
	switch {
	case c.IfRev < 0:
		return fmt.Errorf("%w: IfRev %d, want 0 or above", ErrMalformed, c.IfRev)
	case c.Doc.Rev <= c.IfRev:
		return fmt.Errorf("%w: Rev %d, want above IfRev %d", ErrMalformed, c.Doc.Rev, c.IfRev)
	case c.Doc.Rev > MaxRev:
		return fmt.Errorf("%w: Rev %d, at most %d", ErrMalformed, c.Doc.Rev, int64(MaxRev))
	case c.Doc.Expires < 0:
		return fmt.Errorf("%w: Expires %d, want 0 or above", ErrMalformed, c.Doc.Expires)
	case c.Doc.WriterID.Session == "":
		// Without a writer ID the writer could not know its write again after a lost answer.
		return fmt.Errorf("%w: Put without a writer ID", ErrMalformed)
	}
	if size := len(c.Doc.Body); size > MaxBody {
		return fmt.Errorf("%w: body of %d bytes, at most %d", ErrTooLarge, size, MaxBody)
	}
	return nil
}

// ValidateTexts checks a document's texts, which are all its fields of type string. Each must be valid UTF-8 without
// NUL bytes and have at most [MaxText] bytes. The error wraps [ErrMalformed] or [ErrTooLarge].
func ValidateTexts(d Doc) error {
	for _, text := range [...]string{d.ID, d.WriterID.Session, d.Group, d.Session, d.Next, d.State} {
		if len(text) > MaxText {
			return fmt.Errorf("%w: text of %d bytes, at most %d", ErrTooLarge, len(text), MaxText)
		}
		if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
			return fmt.Errorf("%w: text %.80q is not UTF-8 or holds a NUL byte", ErrMalformed, text)
		}
	}
	return nil
}

// CheckSchema is nil when a database was set up by the version of the layout that the program knows. Else it wraps
// [ErrSchema] and says what to do. where names what holds the version.
func CheckSchema(where string, found, known int) error {
	switch {
	case found == known:
		return nil
	case found > known:
		return fmt.Errorf("%w: %s says version %d, this program knows %d: upgrade it", ErrSchema, where, found, known)
	}
	return fmt.Errorf("%w: %s says version %d, which no released program wrote, this one needs %d: "+
		"name another cluster, or drop this one's tables or collections while nothing runs", ErrSchema, where, found,
		known)
}

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

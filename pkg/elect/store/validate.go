package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrMalformed says a change or a read makes no sense in itself: an unknown kind, an empty ID, a revision that does not rise.
var ErrMalformed = errors.New("malformed")

// Valid says whether k is one of [Kinds].
func (k Kind) Valid() bool {
	switch k {
	case KindSession, KindMember, KindLock, KindValue, KindGroup, KindOverride, KindEvent:
		return true
	}
	return false
}

// ValidateKind is nil for a kind of [Kinds]; else the error wraps [ErrMalformed]. Stores call it before a read.
func ValidateKind(k Kind) error {
	if !k.Valid() {
		return fmt.Errorf("kind %q: %w: want one of %v", k, ErrMalformed, Kinds())
	}
	return nil
}

// MaxMark is the largest revision that an Increment may carry: the end of the year 9999 in Unix ms. Larger ones were written out of
// band, and soon nothing could be created above them.
const MaxMark = 253_402_300_799_999

// ValidateChanges is what every store checks before it sends anything, so that all of them refuse the same changes. The error
// names the first bad change and wraps [ErrMalformed] or [ErrTooLarge].
//
// Texts are valid UTF-8 without NUL bytes and at most [MaxText] bytes; a body is a JSON object of at most [MaxBody] bytes, or
// empty; no document is named twice.
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
	case c.Doc.WriterID.Session == "":
		// Without a writer ID the writer could not know its write again after a lost answer.
		return fmt.Errorf("%w: Put without a writer ID", ErrMalformed)
	}
	return validateBody(c.Doc.Body)
}

func validateBody(body []byte) error {
	switch {
	case len(body) == 0:
		return nil
	case len(body) > MaxBody:
		return fmt.Errorf("%w: body of %d bytes, at most %d", ErrTooLarge, len(body), MaxBody)
	case !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) || !json.Valid(body):
		return fmt.Errorf("%w: body is not a JSON object", ErrMalformed)
	}
	return nil
}

// ValidateTexts checks a document's texts, which are all its fields of type string: each is valid UTF-8 without NUL bytes and has at
// most [MaxText] bytes. The error wraps [ErrMalformed] or [ErrTooLarge].
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

// Judge tells how a Put or Delete ends that was tested against the document as found (nil: absent), from what the document
// alone can tell. Applied is true of found as it is: either the change's own write, or, with apply true, the condition holds and the caller is to write now.
//
// A store keeps no history, so a change that was sent before, written, and written over is not told from one that came
// too late the first time: both are Overtaken, unless the revision proves that it cannot have been written. Revisions
// only rise while a document exists; had a Put been written, the document could not be at or below its revision under
// another writer ID. A document above the revision that a Delete names may have been created again since. So Refused is a proof, up to
// a document that was deleted and created again at a lower revision, and Overtaken is not.
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

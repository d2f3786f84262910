package elect

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// MaxRev is the largest revision at which a document counts as one. Revisions follow a clock in milliseconds and stay far below it; beyond
// it a database that keeps numbers as doubles would not tell two of them apart.
const MaxRev = 1 << 53

// CheckFound says why what a store found is no document: nobody could change it by compare-and-set. Stores treat it as
// absent, in every method, and let a creation take its place: else whoever wrote it by hand would have locked everybody out.
func CheckFound(d store.Doc) error {
	if d.Rev <= 0 || d.Rev > MaxRev {
		return fmt.Errorf("rev: %d: want 1 to %d", d.Rev, int64(MaxRev))
	}
	if d.ID == "" {
		return errors.New("id: missing or no text")
	}
	if err := store.ValidateTexts(store.Doc{ID: d.ID}); err != nil {
		return fmt.Errorf("id: %w", err)
	}
	return nil
}

const (
	// maxLease bounds what a document may claim to be the lease of its process: it is what others wait for.
	maxLease = 24 * time.Hour
	// maxMoment is the end of the year 9999 in Unix ms, the last that RFC 3339 can write.
	maxMoment = 253_402_300_799_999
)

// mender blanks what makes no sense in a document that anybody may have edited, and says what it was. What is left can be written
// again: a change that every store refuses would be repeated for ever, and others with it.
type mender struct{ errs []error }

func (m *mender) bad(field, format string, args ...any) {
	m.errs = append(m.errs, fmt.Errorf(field+": "+format, args...))
}

func mendText[T ~string](m *mender, field string, text *T) {
	switch {
	case len(*text) > MaxText:
		m.bad(field, "%d bytes, want at most %d", len(*text), MaxText)
	case !utf8.ValidString(string(*text)):
		m.bad(field, "%.80q is not UTF-8", *text)
	default:
		return
	}
	*text = ""
}

// session mends the name of a session, which has to be one that a document can have.
func (m *mender) session(field string, id *string) {
	if err := store.ValidateTexts(store.Doc{ID: *id}); err != nil {
		m.bad(field, "%w", err)
		*id = ""
	}
}

func (m *mender) number(field string, n *int64, most int64) {
	if *n < 0 || *n > most {
		m.bad(field, "%d: want 0 to %d", *n, most)
		*n = 0
	}
}

func (m *mender) moment(field string, ms *int64) { m.number(field, ms, maxMoment) }

// err is everything that was wrong with d; first is what reading its body said.
func (m *mender) err(d store.Doc, first error) error {
	if first != nil {
		m.errs = append([]error{fmt.Errorf("body: %w", first)}, m.errs...)
	}
	if len(m.errs) == 0 {
		return nil
	}
	all := m.errs[0]
	for _, err := range m.errs[1:] {
		all = fmt.Errorf("%w; %w", all, err)
	}
	return fmt.Errorf("%s %.80q: %w", d.Kind, d.ID, all)
}

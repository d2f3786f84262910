package record

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

const (
	// MaxLease bounds what a document may claim to be the lease of its process: it is what others wait for.
	MaxLease = 24 * time.Hour
	// maxMoment is the end of the year 9999 in Unix ms, the last that RFC 3339 can write.
	maxMoment = 253_402_300_799_999
)

// cleaner blanks what makes no sense in a document that anybody may have edited, and says what it was. What is left
// can be written again: a change that every store refuses would be repeated for ever, and others with it.
type cleaner struct{ errs []error }

func (m *cleaner) bad(field, format string, args ...any) {
	m.errs = append(m.errs, fmt.Errorf(field+": "+format, args...))
}

func cleanText[T ~string](m *cleaner, field string, text *T) {
	switch {
	case len(*text) > driver.MaxText:
		m.bad(field, "%d bytes, want at most %d", len(*text), driver.MaxText)
	case !utf8.ValidString(string(*text)):
		m.bad(field, "%.80q is not UTF-8", *text)
	default:
		return
	}
	*text = ""
}

// asked blanks a text of an override that could not have been asked for.
func (m *cleaner) asked(field string, text *string) {
	if err := ValidateAsked(*text); err != nil {
		m.bad(field, "%w", err)
		*text = ""
	}
}

// session fixes the name of a session, which has to be one that a document can have.
func (m *cleaner) session(field string, id *string) {
	if err := driver.ValidateTexts(driver.Doc{ID: *id}); err != nil {
		m.bad(field, "%w", err)
		*id = ""
	}
}

func (m *cleaner) number(field string, n *int64, most int64) {
	if *n < 0 || *n > most {
		m.bad(field, "%d: want 0 to %d", *n, most)
		*n = 0
	}
}

func (m *cleaner) moment(field string, ms *int64) { m.number(field, ms, maxMoment) }

// err is everything that was wrong with d; first is what reading its body said.
func (m *cleaner) err(d driver.Doc, first error) error {
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

// Cleaner blanks what makes no sense in a document of kind value, whose meaning another package knows, and keeps what it
// was. Its zero value is ready to use. It is for one goroutine.
type Cleaner struct{ all cleaner }

// Bad notes what is wrong with a field whose value the caller has blanked.
func (c *Cleaner) Bad(field, format string, args ...any) { c.all.bad(field, format, args...) }

// Text blanks what no store takes as a text inside a body: more than [driver.MaxText] bytes, or no UTF-8.
func (c *Cleaner) Text(field string, text *string) { cleanText(&c.all, field, text) }

// Number makes 0 of what is below 0 or above most.
func (c *Cleaner) Number(field string, n *int64, most int64) { c.all.number(field, n, most) }

// Count is [Cleaner.Number] of how many there are.
func (c *Cleaner) Count(field string, n *int, most int) {
	wide := int64(*n)
	c.all.number(field, &wide, int64(most))
	*n = int(wide)
}

// Moment makes 0 of what is no Unix time in ms before the year 10000.
func (c *Cleaner) Moment(field string, ms *int64) { c.all.moment(field, ms) }

// Err is everything that was wrong with d, as one error; nil: nothing.
func (c *Cleaner) Err(d driver.Doc) error { return c.all.err(d, nil) }

// Guarded is what read makes of d. A panic of it is an error, next to what it makes of d without a body: a document that
// anybody may have edited must not end who reads it.
func Guarded[T any](d driver.Doc, read func(driver.Doc) (T, error)) (is T, err error) {
	defer func() {
		if p := recover(); p == nil {
			return
		} else if d.Body == nil {
			err = fmt.Errorf("%s %.80q: panic: %v", d.Kind, d.ID, p)
		} else {
			body := d.Body
			d.Body = nil
			is, _ = Guarded(d, read)
			err = fmt.Errorf("%s %.80q: body: %d bytes: panic: %v", d.Kind, d.ID, len(body), p)
		}
	}()
	return read(d)
}

func decode(d driver.Doc, into any) error {
	if len(d.Body) == 0 {
		return nil
	}
	return json.Unmarshal(d.Body, into)
}

// mustJSON marshals the plain structs of this file, which cannot fail: they hold no interfaces, channels or floats.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

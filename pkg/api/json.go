package api

import (
	"encoding/json"
	"strconv"
	"time"
)

// How many items one page of a list has, unless asked for, and at most.
const (
	DefaultLimit = 500
	MaxLimit     = 5000
)

// List is a page of a list. A page may hold fewer items than asked for, or none, and yet be continued.
type List[T any] struct {
	Items    []T    `json:"items"`
	Continue string `json:"continue"` // opaque; empty on the last page
	Stale    bool   `json:"stale"`    // the store is unreachable: this is how it was last seen
}

// MarshalJSON writes a list that is nil as an empty one.
func (l List[T]) MarshalJSON() ([]byte, error) {
	type plain struct {
		Items    []T    `json:"items"`
		Continue string `json:"continue"`
		Stale    bool   `json:"stale"`
	}
	return json.Marshal(plain{notNil(l.Items), l.Continue, l.Stale})
}

// One is one object of a cluster as it is answered. In JSON Stale stands last among the object's own fields, and says
// what it says of a [List].
type One[T any] struct {
	Item  T    `json:"-"`
	Stale bool `json:"stale"`
}

// MarshalJSON writes the object with the mark. The object has at least one field of its own.
func (o One[T]) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(o.Item)
	if err != nil {
		return nil, err
	}
	mark := `,"stale":` + strconv.FormatBool(o.Stale) + `}`
	return append(text[:len(text)-len("}")], mark...), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (o *One[T]) UnmarshalJSON(text []byte) error {
	var mark struct {
		Stale bool `json:"stale"`
	}
	if err := json.Unmarshal(text, &mark); err != nil {
		return err
	}
	o.Stale = mark.Stale
	return json.Unmarshal(text, &o.Item)
}

// Labels are words that selectors ask for. Nil is written as {}.
type Labels map[string]string

// MarshalJSON writes nil as {}.
func (l Labels) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]string(l))
}

// Counts are numbers by group. Nil is written as {}.
type Counts map[string]int

// MarshalJSON writes nil as {}.
func (c Counts) MarshalJSON() ([]byte, error) {
	if c == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]int(c))
}

func notNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Time is a moment in UTC, or none: the zero value is written as null.
type Time struct{ time.Time }

// Millis is the moment that many milliseconds after the Unix epoch; 0 or less is none.
func Millis(ms int64) Time {
	if ms <= 0 {
		return Time{}
	}
	return Time{time.UnixMilli(ms).UTC()}
}

// timeLayout is RFC 3339 with exactly three decimals, so that texts sort as moments do.
const timeLayout = "2006-01-02T15:04:05.000Z"

// String is RFC 3339 to the millisecond, or "" for none.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

// MarshalJSON writes RFC 3339 to the millisecond, or null for none.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + t.String() + `"`), nil
}

// UnmarshalJSON reads what MarshalJSON writes, and any other RFC 3339.
func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = Time{}
		return nil
	}
	var at time.Time
	if err := at.UnmarshalJSON(b); err != nil {
		return err
	}
	t.Time = at.UTC()
	return nil
}

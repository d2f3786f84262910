package api

import (
	"time"
)

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

package api

import (
	"encoding/json"
)

// How many items one page of a list has, unless asked for, and at most.
const (
	DefaultLimit = 500
	MaxLimit     = 5000
)

// List is a page of a list. Continue is opaque, and empty on the last page. A page may hold fewer items than asked for,
// or none, and yet be continued. Stale says that the store is unreachable and this is how it was last seen.
type List[T any] struct {
	Items    []T    `json:"items"`
	Continue string `json:"continue"`
	Stale    bool   `json:"stale"`
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

package decode

import (
	"strconv"
	"time"
)

// Lookup finds a variable, as [os.LookupEnv] does.
type Lookup = func(name string) (value string, ok bool)

// Reader reads fields, and gathers what is wrong with them. Each method gives what is written, or the default when
// the field is left out or wrong.
type Reader struct {
	Problems
	// Scope is what variables hold where the fields are read, the task's own among them.
	Scope Lookup
	// AtStart finds the variables that will be set when the task starts. Nil: it is not checked.
	AtStart Lookup
}

// Value is the final text of a scalar; false when it is left out, or wrong, which is then said.
func (r *Reader) Value(n *Node) (string, bool) {
	switch {
	case n == nil || n.Shape != Scalar || n.Bad:
		return "", false
	case n.Settled:
		return n.Text, true
	}
	// It holds a task's own variables: it could not be checked before.
	own := *n
	own.Settled = false
	r.Replace(&own, r.Scope)
	if own.Bad || own.Shape == Void {
		n.Bad = own.Bad
		return "", false
	}
	if n.Rule != nil && !n.Rule.Valid(&own) {
		r.Refuse(n, n.Rule.Allowed())
		return "", false
	}
	return own.Text, true
}

// Text reads text.
func (r *Reader) Text(n *Node, unset string) string {
	if text, ok := r.Value(n); ok {
		return text
	}
	return unset
}

// Duration reads a duration.
func (r *Reader) Duration(n *Node, unset time.Duration) time.Duration {
	text, ok := r.Value(n)
	if !ok {
		return unset
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		r.Refuse(n, "a duration such as 20s, 5m or 1h30m, of less than 290 years")
		return unset
	}
	return d
}

// Positive is Duration for fields in which 0s makes no sense; instead says what to write for what may have been meant.
func (r *Reader) Positive(n *Node, unset time.Duration, instead string) time.Duration {
	d := r.Duration(n, unset)
	if d <= 0 && n != nil && !n.Bad {
		r.Refuse(n, "more than 0s"+instead)
		return unset
	}
	return d
}

// Number reads a whole number, 0 where the field is left out.
func (r *Reader) Number(n *Node) int64 {
	text, ok := r.Value(n)
	if !ok {
		return 0
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r.Refuse(n, n.Rule.Allowed())
		return 0
	}
	return i
}

// Count is Number as an int.
func (r *Reader) Count(n *Node) int { return int(r.Number(n)) }

// Truths are the ways to write true and false.
var Truths = map[string]bool{"true": true, "True": true, "TRUE": true, "false": false, "False": false, "FALSE": false}

// Truth reads true or false.
func (r *Reader) Truth(n *Node) bool {
	text, _ := r.Value(n)
	return Truths[text]
}

// Texts reads a mapping of names to texts; nil where there is none.
func (r *Reader) Texts(n *Node) map[string]string {
	if n == nil || n.Shape != Mapping || len(n.Entries) == 0 {
		return nil
	}
	m := make(map[string]string, len(n.Entries))
	for _, e := range n.Entries {
		if text, ok := r.Value(e.Value); ok {
			m[e.Name] = text
		}
	}
	return m
}

// TextOrList reads a list of texts, or one text in its place.
func (r *Reader) TextOrList(n *Node) []string {
	if n != nil && n.Shape == Scalar {
		return []string{r.Text(n, "")}
	}
	var list []string
	for _, item := range n.List() {
		list = append(list, r.Text(item, ""))
	}
	return list
}

// CheckStart says which variables in the texts of n will not be set when the task starts. The fields of also are the
// names of others that will be; nil: there are none.
func (r *Reader) CheckStart(n, also *Node) {
	if r.AtStart == nil {
		return
	}
	lookup := func(name string) (string, bool) {
		if also.Get(name) != nil {
			return "", true
		}
		return r.AtStart(name)
	}
	n.Scalars(func(n *Node) {
		if n.Rule != nil && n.Rule.AnyText() && !n.Bad {
			r.checkSet(n, lookup)
		}
	})
}

package decode

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one thing wrong with a configuration.
type Error struct {
	File    string
	Line    int    // from 1; 0: the file as a whole
	Col     int    // from 1, in characters; 0: the line as a whole
	Field   string // as in groups[0].tasks[2].exec; empty: the file as a whole
	Message string // what is wrong, what is allowed; never a secret
}

// Error is FILE:LINE:COL: field: message, less what is not known.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
		if e.Col > 0 {
			fmt.Fprintf(&b, ":%d", e.Col)
		}
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field)
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Errors is everything wrong with a configuration, in the order of files and lines. It is never empty where it is
// returned as an error.
type Errors []Error

// Error has a line for each.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each, for errors.As.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

// Ordered sorts by file, in the order of files, then by place, and drops what is said twice.
func (e Errors) Ordered(files []string) Errors {
	seen := make(map[Error]bool, len(e))
	e = slices.DeleteFunc(e, func(one Error) bool {
		twice := seen[one]
		seen[one] = true
		return twice
	})
	slices.SortStableFunc(e, func(a, b Error) int {
		return cmp.Or(
			cmp.Compare(slices.Index(files, a.File), slices.Index(files, b.File)),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Col, b.Col),
		)
	})
	return e
}

// Problems gathers what is wrong, so that all of it is said at once. Its zero value is empty and ready.
type Problems struct {
	Errs Errors
	// Warnings are what is allowed, and probably not meant.
	Warnings Errors
}

// Add says something about a value, which counts as bad from now on.
func (p *Problems) Add(n *Node, format string, args ...any) {
	n.Bad = true
	p.AddAt(n.Place, n.Field(), format, args...)
}

// Warn says something about a value that may stand there all the same.
func (p *Problems) Warn(n *Node, format string, args ...any) {
	p.Warnings = append(p.Warnings, Error{
		File: n.File, Line: n.Line, Col: n.Col, Field: n.Field(), Message: fmt.Sprintf(format, args...),
	})
}

// AddAt says something about a field that stands, or should stand, at a place.
func (p *Problems) AddAt(at Place, field, format string, args ...any) {
	p.Errs = append(p.Errs, Error{
		File: at.File, Line: at.Line, Col: at.Col, Field: field, Message: fmt.Sprintf(format, args...),
	})
}

// Refuse says that a scalar is none of what is allowed, unless something was said about it already. It quotes what
// is written, never what a variable holds.
func (p *Problems) Refuse(n *Node, allowed string) {
	switch {
	case n.Bad:
	case n.HasVariables():
		p.Add(n, "what %s holds is not allowed, must be %s", n.Quoted(), allowed)
	default:
		p.Add(n, "is %s, must be %s", n.Quoted(), allowed)
	}
}

// FieldError is something wrong with a value that was read, or made in Go: what a node's place is found by.
type FieldError struct {
	// Path leads to the field, by names and indices: []string{"command", "0"}.
	Path []string
	// Name says that the field's name is wrong, not what it holds.
	Name bool
	// Must is what the value must be, in words. Message says instead what is wrong where that says too little, or the
	// value is not to be quoted.
	Must, Message string
}

// Error says what is wrong, without a place.
func (f FieldError) Error() string {
	message := f.Message
	if message == "" {
		message = "must be " + f.Must
	}
	if len(f.Path) == 0 {
		return message
	}
	field := ""
	for _, step := range f.Path {
		field = Under(field, step)
	}
	return field + ": " + message
}

// WrongName says that the name of the field at path is wrong.
func WrongName(path []string, message string) FieldError {
	return FieldError{Path: path, Name: true, Message: message}
}

// Within are errors of a value that stands in a field of another.
func Within(field string, wrong []FieldError) []FieldError {
	for i := range wrong {
		wrong[i].Path = append([]string{field}, wrong[i].Path...)
	}
	return wrong
}

// AddFieldErrors says at their places what is wrong with the value that was read from n. Nothing is said of what is
// known to be bad.
func (p *Problems) AddFieldErrors(n *Node, wrong []FieldError) {
	for _, f := range wrong {
		at, in := n.find(f.Path)
		switch {
		case n.Bad || in.IsBad() || at.IsBad() && !f.Name:
		case f.Name && in != nil:
			name := f.Path[len(f.Path)-1]
			p.AddAt(in.KeyPlace(name), Under(in.Field(), name), "%s", f.Message)
		case at == nil:
			p.AddAt(in.Place, Under(in.Field(), f.Path[len(f.Path)-1]), "%s", f.Message)
		case f.Message != "":
			p.Add(at, "%s", f.Message)
		default:
			p.Refuse(at, f.Must)
		}
	}
}

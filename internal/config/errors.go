package config

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

// ordered sorts by file, in the order of files, then by place, and drops what is said twice.
func (e Errors) ordered(files []string) Errors {
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

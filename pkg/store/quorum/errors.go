package quorum

import (
	"slices"
	"strings"
)

// causes are errors of several servers. Unlike those of [errors.Join] they are in one line, as people read them in
// logs.
type causes []error

// Error implements error.
func (c causes) Error() string {
	texts := make([]string, len(c))
	for i, err := range c {
		texts[i] = err.Error()
	}
	return strings.Join(slices.Compact(texts), "; ")
}

// Unwrap returns all of them.
func (c causes) Unwrap() []error { return c }

// join leaves out what is nil. It is nil where all are.
func join(errs ...error) error {
	all := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(all) == 0 {
		return nil
	}
	return causes(all)
}

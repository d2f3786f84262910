package config

import (
	"fmt"
	"strings"
)

// problems gathers what is wrong, so that all of it is told at once.
type problems struct {
	errs Errors
}

// add says something about a value.
func (p *problems) add(n *node, format string, args ...any) {
	n.bad = true
	p.addAt(n, n.field(), format, args...)
}

// addAt says something about a field that stands, or should stand, at n.
func (p *problems) addAt(n *node, field, format string, args ...any) {
	p.errs = append(p.errs, Error{
		File: n.file, Line: n.line, Col: n.col, Field: field, Message: fmt.Sprintf(format, args...),
	})
}

// refuse says that a scalar is none of what is allowed. It quotes what is written, never what a variable holds.
func (p *problems) refuse(n *node, allowed string) {
	if n.bad {
		return
	}
	p.add(n, "%s", refusal(n, allowed))
}

func refusal(n *node, allowed string) string {
	if strings.Contains(n.raw, "$(") {
		return fmt.Sprintf("what %s holds is not allowed, must be %s", n.quoted(), allowed)
	}
	return fmt.Sprintf("is %s, must be %s", n.quoted(), allowed)
}

package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// node is a value of a configuration: where it stands, what is written there, and what the schema wants there. Aliases
// and merge keys are resolved, keys for people are gone.
type node struct {
	file      string
	line, col int
	parent    *node
	key       string // in a mapping
	index     int    // in a list; -1 in a mapping

	kind    shape
	raw     string // of a scalar: as written
	plain   bool   // written without quotes
	text    string // of a scalar: with variables replaced; raw until then
	settled bool   // text holds the final value
	bad     bool   // something was already said about it

	schema  *jsonschema.Schema // what it refers to is resolved; nil for an unknown field
	entries []entry
	items   []*node
}

type shape int

const (
	scalar shape = iota
	mapping
	list
	void // left out: nothing is written, or a variable holds nothing
)

type entry struct {
	name      string
	line, col int
	value     *node
}

// get is the value of a field, nil when it is left out. It may be called on nil.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for _, e := range n.entries {
		if e.name == name && e.value.kind != void {
			return e.value
		}
	}
	return nil
}

// at is get along several names.
func (n *node) at(names ...string) *node {
	for _, name := range names {
		n = n.get(name)
	}
	return n
}

// field is where n stands, as in groups[0].tasks[2].exec; empty for the whole.
func (n *node) field() string {
	if n == nil || n.parent == nil {
		return ""
	}
	if n.index >= 0 {
		return fmt.Sprintf("%s[%d]", n.parent.field(), n.index)
	}
	return under(n.parent.field(), n.key)
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,128}$`)

func under(field, name string) string {
	switch {
	case !plainName.MatchString(name):
		return fmt.Sprintf("%s[%q]", field, clipped(name))
	case field == "":
		return name
	default:
		return field + "." + name
	}
}

func clipped(text string) string {
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:60]) + "…"
	}
	return text
}

// place is FILE:LINE:COL.
func (n *node) place() string { return fmt.Sprintf("%s:%d:%d", n.file, n.line, n.col) }

// variableOnly matches a value that is only $(NAME): it takes its field's type.
var variableOnly = regexp.MustCompile(`^\$\([^)]*\)$`)

var (
	wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	truths      = map[string]bool{"true": true, "True": true, "TRUE": true, "false": false, "False": false, "FALSE": false}
)

// value is n for the schema: text wherever the schema takes text, else what the text says.
func (n *node) value() any {
	switch n.kind {
	case mapping:
		m := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			if e.value.kind != void {
				m[e.name] = e.value.value()
			}
		}
		return m
	case list:
		l := make([]any, len(n.items))
		for i, item := range n.items {
			l[i] = item.value()
		}
		return l
	case void:
		return nil
	default:
		free := variableOnly.MatchString(n.raw) || n.plain && !strings.Contains(n.raw, "$(")
		return typed(n.schema, n.text, free)
	}
}

// typed is a scalar as the schema wants it: what stands in quotes is text.
func typed(s *jsonschema.Schema, text string, free bool) any {
	if !free {
		return text
	}
	switch {
	case wants(s, "string"):
		return text
	case wants(s, "integer") && wholeNumber.MatchString(text):
		return json.Number(text)
	case wants(s, "boolean"):
		if truth, ok := truths[text]; ok {
			return truth
		}
	}
	return text
}

// wants says whether a schema, resolved, takes a type.
func wants(s *jsonschema.Schema, name string) bool {
	return s != nil && s.Types != nil && slices.Contains(s.Types.ToStrings(), name)
}

// free says that any text will do here, the empty one too.
func (n *node) free() bool {
	return wants(n.schema, "string") && n.schema.Enum == nil &&
		(n.schema.Pattern == nil || n.schema.Pattern.MatchString(""))
}

// anyText says that the field is for text of any form: in a runner such fields stay as written.
func (n *node) anyText() bool {
	return wants(n.schema, "string") && n.schema.Enum == nil && n.schema.Pattern == nil
}

// scalars calls f for every scalar of n.
func (n *node) scalars(f func(*node)) {
	if n == nil {
		return
	}
	if n.kind == scalar {
		f(n)
	}
	for _, e := range n.entries {
		e.value.scalars(f)
	}
	for _, item := range n.items {
		item.scalars(f)
	}
}

// written is n as it is written, for hashes: texts, mappings and lists of them.
func (n *node) written() any {
	switch n.kind {
	case mapping:
		m := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			if e.value.kind != void {
				m[e.name] = e.value.written()
			}
		}
		return m
	case list:
		l := make([]any, len(n.items))
		for i, item := range n.items {
			l[i] = item.written()
		}
		return l
	default:
		return n.raw
	}
}

// quoted is what is written at n, for an error: never what a variable holds.
func (n *node) quoted() string {
	if strings.Contains(n.raw, "$(") {
		return clipped(n.raw)
	}
	return fmt.Sprintf("%q", clipped(n.raw))
}

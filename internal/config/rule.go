package config

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// rule is a schema, with its references resolved, as nodes see it.
type rule struct{ *jsonschema.Schema }

// ruleOf is the rule for what a schema says; nil for a field that no schema knows.
func ruleOf(s *jsonschema.Schema) decode.Rule {
	if s = resolve(s); s == nil {
		return nil
	}
	return rule{s}
}

// schemaOf is the schema of a node, nil for an unknown field.
func schemaOf(n *decode.Node) *jsonschema.Schema {
	r, _ := n.Rule.(rule)
	return r.Schema
}

// Allowed says what the schema takes.
func (r rule) Allowed() string { return allowed(r.Schema) }

// AnyText says that the schema takes text of any form.
func (r rule) AnyText() bool { return wants(r.Schema, "string") && r.Enum == nil && r.Pattern == nil }

// Free says that any text will do, the empty one too.
func (r rule) Free() bool {
	return wants(r.Schema, "string") && r.Enum == nil && (r.Pattern == nil || r.Pattern.MatchString(""))
}

// Valid says whether the schema takes a scalar's final text.
func (r rule) Valid(n *decode.Node) bool { return r.Validate(value(n)) == nil }

// wants says whether a schema, resolved, takes a type.
func wants(s *jsonschema.Schema, name string) bool {
	return s != nil && s.Types != nil && slices.Contains(s.Types.ToStrings(), name)
}

var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// value is n for the schema: text wherever the schema takes text, else what the text says.
func value(n *decode.Node) any {
	switch n.Shape {
	case decode.Mapping:
		m := make(map[string]any, len(n.Entries))
		for _, e := range n.Entries {
			if e.Value.Shape != decode.Void {
				m[e.Name] = value(e.Value)
			}
		}
		return m
	case decode.List:
		l := make([]any, len(n.Items))
		for i, item := range n.Items {
			l[i] = value(item)
		}
		return l
	case decode.Void:
		return nil
	default:
		return typed(n)
	}
}

// typed is a scalar as its schema wants it: what stands in quotes is text.
func typed(n *decode.Node) any {
	s := schemaOf(n)
	switch {
	case !n.VariableOnly() && (!n.Plain || strings.Contains(n.Raw, "$(")), wants(s, "string"):
	case wants(s, "integer") && wholeNumber.MatchString(n.Text):
		return json.Number(n.Text)
	case wants(s, "boolean"):
		if truth, ok := decode.Truths[n.Text]; ok {
			return truth
		}
	}
	return n.Text
}

package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/shardctl/shardctl/internal/nearest"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// resolve follows references, and of alternatives the first: the second is always a variable that is not known yet.
func resolve(s *jsonschema.Schema) *jsonschema.Schema {
	for s != nil && s.Types == nil {
		switch {
		case s.Ref != nil:
			s = s.Ref
		case len(s.AnyOf) > 0:
			s = s.AnyOf[0]
		default:
			return s
		}
	}
	return s
}

func fieldSchema(s *jsonschema.Schema, name string) *jsonschema.Schema {
	if s == nil {
		return nil
	}
	if field, ok := s.Properties[name]; ok {
		return field
	}
	more, _ := s.AdditionalProperties.(*jsonschema.Schema)
	return more
}

func itemSchema(s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil {
		return nil
	}
	return s.Items2020
}

// check holds a file against the schema.
func (l *loader) check(root *decode.Node) {
	var invalid *jsonschema.ValidationError
	if err := l.schema.Validate(value(root)); errors.As(err, &invalid) {
		leaves(invalid, func(e *jsonschema.ValidationError) { report(root.Find(e.InstanceLocation), e, &l.Problems) })
	}
}

// leaves calls f for each cause that has none of its own; of alternatives only the first one counts, as in resolve.
func leaves(e *jsonschema.ValidationError, f func(*jsonschema.ValidationError)) {
	causes := e.Causes
	if _, ok := e.ErrorKind.(*kind.AnyOf); ok && len(causes) > 1 {
		causes = causes[:1]
	}
	if len(causes) == 0 {
		f(e)
	}
	for _, cause := range causes {
		leaves(cause, f)
	}
}

// report words an error of the validator.
func report(n *decode.Node, e *jsonschema.ValidationError, p *decode.Problems) {
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			p.AddAt(n.Place, decode.Under(n.Field(), name), "is required")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			reportUnknown(n, name, p)
		}
	case *kind.MinItems:
		p.Add(n, "is empty, must hold at least %d", k.Want)
	default:
		reportRefused(n, p)
	}
}

func reportRefused(n *decode.Node, p *decode.Problems) {
	switch {
	case n.Bad:
	case n.Shape == decode.Mapping:
		p.Add(n, "is a mapping, must be %s", allowed(schemaOf(n)))
	case n.Shape == decode.List:
		p.Add(n, "is a list, must be %s", allowed(schemaOf(n)))
	case n.Shape == decode.Void:
		p.Add(n, "is empty, must be %s", allowed(schemaOf(n)))
	case wants(schemaOf(n), "object") || wants(schemaOf(n), "array"):
		// What stands here was meant for another field, a secret perhaps: it is not quoted.
		p.Add(n, "is text, must be %s", allowed(schemaOf(n)))
	case !n.Plain && !wants(schemaOf(n), "string") && !n.VariableOnly():
		p.Add(n, "is the text %s, must be %s, without quotes", n.Quoted(), allowed(schemaOf(n)))
	case unitless(n):
		p.Add(n, "is %s, add a unit: %ss", n.Quoted(), n.Text)
	default:
		p.Refuse(n, allowed(schemaOf(n)))
	}
}

// unitless says that a duration stands there as a bare number.
func unitless(n *decode.Node) bool {
	_, err := strconv.ParseUint(n.Text, 10, 32)
	return err == nil && n.Text == n.Raw && strings.HasPrefix(allowed(schemaOf(n)), "a duration")
}

// allowed says what a schema takes.
func allowed(s *jsonschema.Schema) string {
	switch {
	case s == nil:
		return "something else"
	case s.Comment != "":
		return s.Comment
	case len(s.Properties) > 0:
		return "a mapping with " + fieldNames(s)
	case wants(s, "array"):
		return "a list"
	default:
		return strings.Join(s.Types.ToStrings(), " or ")
	}
}

func fieldNames(s *jsonschema.Schema) string {
	return strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ")
}

func reportUnknown(n *decode.Node, name string, p *decode.Problems) {
	meant := ""
	if near := nearest.Name(name, slices.Sorted(maps.Keys(schemaOf(n).Properties))); near != "" {
		meant = fmt.Sprintf("did you mean %s? ", near)
	}
	p.AddAt(n.KeyPlace(name), decode.Under(n.Field(), name), "is not a field, %sallowed are %s", meant,
		fieldNames(schemaOf(n)))
}

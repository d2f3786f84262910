package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	samples "github.com/shardctl/shardctl/config"
)

// compiled is the schema. It is part of the program, so what is wrong with it shows in every test.
var compiled = sync.OnceValue(func() *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(samples.Schema))
	if err != nil {
		panic(fmt.Sprintf("config: schema: %v", err))
	}
	const name = "shardctl.schema.json"
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(name, doc); err != nil {
		panic(fmt.Sprintf("config: schema: %v", err))
	}
	return compiler.MustCompile(name)
})

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
func check(root *node, p *problems) {
	var invalid *jsonschema.ValidationError
	if err := compiled().Validate(root.value()); errors.As(err, &invalid) {
		leaves(invalid, func(e *jsonschema.ValidationError) { tell(root.find(e.InstanceLocation), e, p) })
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

// find is the node at a place that the validator names.
func (n *node) find(place []string) *node {
	for _, step := range place {
		next := n.get(step)
		if n.kind == list {
			if i, err := strconv.Atoi(step); err == nil && i < len(n.items) {
				next = n.items[i]
			}
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// tell words an error of the validator.
func tell(n *node, e *jsonschema.ValidationError, p *problems) {
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			p.addAt(n, under(n.field(), name), "is required")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			tellUnknown(n, name, p)
		}
	case *kind.MinItems:
		p.add(n, "is empty, must hold at least %d", k.Want)
	default:
		tellRefused(n, p)
	}
}

func tellRefused(n *node, p *problems) {
	switch {
	case n.bad:
	case n.kind == mapping:
		p.add(n, "is a mapping, must be %s", allowed(n.schema))
	case n.kind == list:
		p.add(n, "is a list, must be %s", allowed(n.schema))
	case n.kind == void:
		p.add(n, "is empty, must be %s", allowed(n.schema))
	case wants(n.schema, "object") || wants(n.schema, "array"):
		// What stands here was meant for another field, a secret perhaps: it is not quoted.
		p.add(n, "is text, must be %s", allowed(n.schema))
	case !n.plain && !wants(n.schema, "string") && !variableOnly.MatchString(n.raw):
		p.add(n, "is the text %s, must be %s, without quotes", n.quoted(), allowed(n.schema))
	default:
		p.refuse(n, allowed(n.schema))
	}
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

func tellUnknown(n *node, name string, p *problems) {
	at := *n
	for _, e := range n.entries {
		if e.name == name {
			at.line, at.col = e.line, e.col
		}
	}
	hint := ""
	if near := nearest(name, slices.Sorted(maps.Keys(n.schema.Properties))); near != "" {
		hint = fmt.Sprintf("did you mean %s? ", near)
	}
	p.addAt(&at, under(n.field(), name), "is not a field, %sallowed are %s", hint, fieldNames(n.schema))
}

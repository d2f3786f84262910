package config

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"weak"

	"github.com/santhosh-tekuri/jsonschema/v6"
	errorkind "github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// base is the schema less what is declared elsewhere. A line with the name of that in brackets stands where it belongs.
//
//go:embed base.schema.json
var base string

// Schema is the JSON Schema of a configuration, draft 2020-12, with the kinds of tasks and of listers given; listers
// may be nil.
func Schema(kinds *kind.Set[kind.Kind], listers *kind.Set[discover.Kind]) string {
	var works, retries field.List
	var definitions, lists, listed []string
	define := func(name, schema string) {
		works = append(works, field.Field{Name: name, Value: field.Elsewhere{Members: []string{field.Ref(name)}}})
		definitions = append(definitions, defined(name, schema))
	}
	for _, kind := range kinds.All() {
		define(kind.Name(), kind.Schema())
	}
	for _, field := range kind.TaskFields(kinds, false) {
		define(field.Name, field.Schema)
	}
	for _, f := range kind.TaskFields(kinds, true) {
		retries = append(retries, field.Field{Name: f.Name, Value: field.Elsewhere{Schema: f.Schema}})
	}
	for _, kind := range listers.All() {
		name := "discover-" + kind.Name()
		lists = append(lists, defined(kind.Name(), "{"+field.Ref(name)+"}"))
		listed = append(listed, defined(name, kind.Schema()))
	}
	task := kind.FieldsOf(&tasks.Task{}, works, retries)
	schema := insert(base, `"(settings)": "fields"`, settings.FieldsOf(&settings.Settings{}, nil).Blocks())
	schema = insert(schema, `"(group)": "fields"`, settings.GroupFieldsOf(&settings.Group{}, nil).Blocks())
	schema = insert(schema, `"(discover)": "fields"`, new(settings.Discover).Fields().Properties())
	schema = insert(schema, `"(serverTLS)": "definition"`, []string{defined("serverTLS", settings.TLSSchema())})
	schema = insert(schema, `"(task)": "fields"`, task.Properties())
	schema = insert(schema, `"(task)": "references"`, references(task))
	schema = insert(schema, `"(kind)": "definitions"`, definitions)
	schema = insert(schema, `"(lister)": "definitions"`, listed)
	return insert(schema, `"(lister)": "fields"`, lists)
}

// insert is a schema with members in place of each line that is a mark.
func insert(schema, mark string, members []string) string {
	var out strings.Builder
	for line := range strings.Lines(schema) {
		indent, after, is := strings.Cut(line, mark)
		switch {
		case !is:
			out.WriteString(line)
		case len(members) > 0:
			text := strings.Join(members, ",\n")
			out.WriteString(indent + strings.ReplaceAll(text, "\n", "\n"+indent) + after)
		}
	}
	return out.String()
}

// defined is a member of a schema.
func defined(name, schema string) string {
	return fmt.Sprintf("%q: %s", name, strings.TrimSpace(schema))
}

// references are the members of the JSON Schema of a mapping with the fields of a task, as those of the task are.
func references(task field.List) []string {
	members := make([]string, len(task))
	for i, f := range task {
		members[i] = defined(f.Name, `{"$ref": "#/$defs/task/properties/`+f.Name+`"}`)
	}
	return members
}

// schemas are those compiled, by their kinds. They take more than a megabyte, and go when nothing is read any more.
var schemas sync.Map // kindsOf to weak.Pointer[jsonschema.Schema]

// kindsOf is what a compiled schema is kept under.
type kindsOf struct {
	tasks   *kind.Set[kind.Kind]
	listers *kind.Set[discover.Kind]
}

// compiled is the schema to check by. It is part of the program, so what is wrong with it shows in every test.
func compiled(kinds *kind.Set[kind.Kind], listers *kind.Set[discover.Kind]) *jsonschema.Schema {
	of := kindsOf{kinds, listers}
	if known, ok := schemas.Load(of); ok {
		if s := known.(weak.Pointer[jsonschema.Schema]).Value(); s != nil {
			return s
		}
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(Schema(kinds, listers)))
	if err != nil {
		panic(fmt.Sprintf("config: schema: %v", err))
	}
	const name = "shardctl.schema.json"
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(name, doc); err != nil {
		panic(fmt.Sprintf("config: schema: %v", err))
	}
	s := compiler.MustCompile(name)
	schemas.Store(of, weak.Make(s))
	return s
}

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
func check(root *decode.Node, schema *jsonschema.Schema, p *decode.Problems) {
	var invalid *jsonschema.ValidationError
	if err := schema.Validate(value(root)); errors.As(err, &invalid) {
		leaves(invalid, func(e *jsonschema.ValidationError) { report(root.Find(e.InstanceLocation), e, p) })
	}
}

// leaves calls f for each cause that has none of its own; of alternatives only the first one counts, as in resolve.
func leaves(e *jsonschema.ValidationError, f func(*jsonschema.ValidationError)) {
	causes := e.Causes
	if _, ok := e.ErrorKind.(*errorkind.AnyOf); ok && len(causes) > 1 {
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
	case *errorkind.Required:
		for _, name := range k.Missing {
			p.AddAt(n.Place, decode.Under(n.Field(), name), "is required")
		}
	case *errorkind.AdditionalProperties:
		for _, name := range k.Properties {
			reportUnknown(n, name, p)
		}
	case *errorkind.MinItems:
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
	if near := decode.Nearest(name, slices.Sorted(maps.Keys(schemaOf(n).Properties))); near != "" {
		meant = fmt.Sprintf("did you mean %s? ", near)
	}
	p.AddAt(n.KeyPlace(name), decode.Under(n.Field(), name), "is not a field, %sallowed are %s", meant,
		fieldNames(schemaOf(n)))
}

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

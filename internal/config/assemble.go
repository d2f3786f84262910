package config

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
)

// base is the schema less the kinds of tasks and of listers. A line with "(kinds)" or "(listers)" stands where their
// definitions, or fields for them, belong.
//
//go:embed base.schema.json
var base string

// Schema is the JSON Schema of a configuration, draft 2020-12, with the kinds of tasks and of listers given; listers
// may be nil.
func Schema(kinds *tasks.Kinds, listers *discover.Kinds) string {
	var fragments, lists []fragment
	for _, kind := range kinds.All() {
		fragments = append(fragments, fragment{kind.Name(), kind.Name(), kind.Schema()})
	}
	for _, field := range kinds.TaskFields(false) {
		fragments = append(fragments, fragment{field.Name, field.Name, field.Schema})
	}
	for _, kind := range listers.All() {
		lists = append(lists, fragment{kind.Name(), "discover-" + kind.Name(), kind.Schema()})
	}
	var out strings.Builder
	for line := range strings.Lines(base) {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		switch strings.TrimSpace(line) {
		case `"(kinds)": "definitions",`:
			define(&out, indent, fragments)
		case `"(kinds)": "fields",`:
			refer(&out, indent, fragments)
		case `"(listers)": "definitions",`:
			define(&out, indent, lists)
		case `"(listers)": "fields",`:
			refer(&out, indent, lists)
		case `"(kinds)": "fields of retry",`:
			for _, field := range kinds.TaskFields(true) {
				fmt.Fprintf(&out, "%s%q: %s,\n", indent, field.Name, indented(field.Schema, indent))
			}
		default:
			out.WriteString(line)
		}
	}
	return out.String()
}

// fragment is what a kind adds to the schema: a field, and the definition of its value.
type fragment struct{ field, definition, schema string }

func define(out *strings.Builder, indent string, all []fragment) {
	for _, f := range all {
		fmt.Fprintf(out, "%s%q: %s,\n", indent, f.definition, indented(f.schema, indent))
	}
}

func refer(out *strings.Builder, indent string, all []fragment) {
	for _, f := range all {
		fmt.Fprintf(out, "%s%q: {\"$ref\": \"#/$defs/%s\"},\n", indent, f.field, f.definition)
	}
}

// indented is a fragment of the schema as it stands below others.
func indented(fragment, indent string) string {
	return strings.ReplaceAll(strings.TrimSpace(fragment), "\n", "\n"+indent)
}

// schemas are those compiled, by their kinds.
var schemas sync.Map

// kindsOf is what a compiled schema is kept under.
type kindsOf struct {
	tasks   *tasks.Kinds
	listers *discover.Kinds
}

// compiled is the schema to check by. It is part of the program, so what is wrong with it shows in every test.
func compiled(kinds *tasks.Kinds, listers *discover.Kinds) *jsonschema.Schema {
	of := kindsOf{kinds, listers}
	if s, ok := schemas.Load(of); ok {
		return s.(*jsonschema.Schema)
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
	schemas.Store(of, s)
	return s
}

package config

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// base is the schema less the kinds of tasks. A line with "(kinds)" stands where their definitions, or fields for
// them, belong.
//
//go:embed base.schema.json
var base string

// Schema is the JSON Schema of a configuration, draft 2020-12, with the kinds of tasks given.
func Schema(kinds *tasks.Kinds) string {
	var out strings.Builder
	for line := range strings.Lines(base) {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		switch strings.TrimSpace(line) {
		case `"(kinds)": "definitions",`:
			define := func(name, schema string) {
				fmt.Fprintf(&out, "%s%q: %s,\n", indent, name, indented(schema, indent))
			}
			for _, kind := range kinds.All() {
				define(kind.Name(), kind.Schema())
			}
			for _, field := range kinds.TaskFields(false) {
				define(field.Name, field.Schema)
			}
		case `"(kinds)": "fields",`:
			names := kinds.Names()
			for _, field := range kinds.TaskFields(false) {
				names = append(names, field.Name)
			}
			for _, name := range names {
				fmt.Fprintf(&out, "%s%q: {\"$ref\": \"#/$defs/%s\"},\n", indent, name, name)
			}
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

// indented is a fragment of the schema as it stands below others.
func indented(fragment, indent string) string {
	return strings.ReplaceAll(strings.TrimSpace(fragment), "\n", "\n"+indent)
}

// schemas are those compiled, by their kinds.
var schemas sync.Map

// compiled is the schema to check by. It is part of the program, so what is wrong with it shows in every test.
func compiled(kinds *tasks.Kinds) *jsonschema.Schema {
	if s, ok := schemas.Load(kinds); ok {
		return s.(*jsonschema.Schema)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(Schema(kinds)))
	if err != nil {
		panic(fmt.Sprintf("config: schema: %v", err))
	}
	const name = "shardctl.schema.json"
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(name, doc); err != nil {
		panic(fmt.Sprintf("config: schema: %v", err))
	}
	s := compiler.MustCompile(name)
	schemas.Store(kinds, s)
	return s
}

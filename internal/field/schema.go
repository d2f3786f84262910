package field

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
)

// Kind is a kind of things that a configuration describes by the fields of an S. made is the T of one that was read
// from n.
func Kind[S, T any](
	name, doc string, fields func(*S) List, made func(s *S, n *decode.Node) T,
) decode.Kind[T] {
	return decode.Kind[T]{
		Field: name,
		Form:  func() string { return fields(new(S)).Schema(doc) },
		Read: func(n *decode.Node, r *decode.Reader) T {
			s := new(S)
			fields(s).Parse(n, r)
			return made(s, n)
		},
	}
}

// Mapping is a mapping below another.
type Mapping struct {
	Fields List
	Off    bool // it is left out: it is neither checked nor printed
	// Required are fields without which it is refused wherever it stands, also in the defaults of a group.
	Required []string
	// Sorted says that errors name its fields in alphabetical order.
	Sorted bool
	// Type is the definition in the schema of a mapping with the fields; empty: it stands at the field.
	Type string
}

func (m Mapping) read(n *decode.Node, r *decode.Reader) { m.Fields.Read(n, r) }

func (m Mapping) check() []decode.FieldError {
	if m.Off {
		return nil
	}
	return m.Fields.Check()
}

func (m Mapping) print() any {
	if m.Off {
		return nil
	}
	return m.Fields.Print()
}

func (m Mapping) expand(e *expander, field string) {
	if !m.Off {
		m.Fields.expand(e, field)
	}
}

func (m Mapping) holds() any {
	all := make([]any, len(m.Fields))
	for i, f := range m.Fields {
		all[i] = f.Value.holds()
	}
	return all
}

func (m Mapping) schema(width int) []string {
	if m.Type != "" {
		return []string{Ref(m.Type)}
	}
	var names []string
	for _, f := range m.Fields {
		if _, elsewhere := f.Value.(Elsewhere); !elsewhere {
			names = append(names, f.Name)
		}
	}
	members := []string{`"type": "object"`, `"additionalProperties": false`, `"patternProperties": {"^x-": true}`}
	if !m.Sorted {
		members = slices.Insert(members, 0, member("$comment", "a mapping with "+strings.Join(names, ", ")))
	}
	if m.Required != nil {
		members = append(members, member("required", m.Required))
	}
	return append(members, `"properties": `+block(m.Fields.properties(width)))
}

// Widths of what takes one line in a schema.
const (
	long  = 200
	short = 50 // what has no description
)

// Properties are the members of the JSON Schema of a mapping that has the fields, beside others.
func (l List) Properties() []string { return l.properties(long) }

// Blocks are the same as Properties, with each field on lines of its own.
func (l List) Blocks() []string { return l.properties(short) }

func (l List) properties(width int) []string {
	properties := make([]string, len(l))
	for i, f := range l {
		properties[i] = fmt.Sprintf("%q: %s", f.Name, f.schema(width))
	}
	return properties
}

// Elsewhere is a value that something else reads and checks.
type Elsewhere struct {
	settled
	Schema  string   // of the whole field; empty: the members of it, beside its description
	Members []string // of the schema
	Shows   any      // what is printed; nil: nothing
	Holds   any      // what it is compared by
}

func (Elsewhere) read(*decode.Node, *decode.Reader) {}
func (e Elsewhere) print() any                      { return e.Shows }
func (e Elsewhere) holds() any                      { return e.Holds }
func (e Elsewhere) schema(int) []string             { return e.Members }

// Schema is the JSON Schema of what may stand in the field.
func (f Field) Schema() string { return f.schema(long) }

func (f Field) schema(width int) string {
	if elsewhere, is := f.Value.(Elsewhere); is && elsewhere.Schema != "" {
		return strings.TrimSpace(elsewhere.Schema)
	}
	members := f.Value.schema(width)
	if f.Unset != "" {
		members = slices.DeleteFunc(members, func(m string) bool { return strings.HasPrefix(m, `"default": `) })
	}
	if about := f.description(); about != "" {
		members = append([]string{member("description", about)}, members...)
	}
	return within(width, members)
}

// description is Doc, and behind it what holds where the field is left out, unless the schema says so by its default.
func (f Field) description() string {
	required := false
	switch v := f.Value.(type) {
	case Text:
		required = v.Required != ""
	case Texts, Patterns:
		required = true
	}
	switch {
	case required:
		return strings.TrimSpace(f.Doc + " Required.")
	case f.Unset != "":
		return strings.TrimSpace(f.Doc + " Default: " + f.Unset + ".")
	}
	return f.Doc
}

// Schema is the JSON Schema of a mapping with the fields. It refers to definitions of the configuration's.
func (l List) Schema(description string) string { return l.SchemaIn(long, description) }

// SchemaIn is the same as Schema, with what is longer than width on several lines.
func (l List) SchemaIn(width int, description string) string {
	return block(append([]string{member("description", description)}, Mapping{Fields: l}.schema(width)...))
}

// orVariable is a member for values with these members, or one variable.
func orVariable(members ...string) string {
	return `"anyOf": [` + object(members...) + `, {"$ref": "#/$defs/variable"}]`
}

func member(name string, value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // a text or a number
	}
	return fmt.Sprintf("%q: %s", name, strings.ReplaceAll(strings.TrimSpace(text.String()), `","`, `", "`))
}

// Ref is the member of a schema that refers to a definition.
func Ref(definition string) string { return `"$ref": "#/$defs/` + definition + `"` }

// object is on one line where it is short.
func object(members ...string) string { return within(long, members) }

// within is an object, on one line where that is no longer than width.
func within(width int, members []string) string {
	line := "{" + strings.Join(members, ", ") + "}"
	if len(line) <= width && !strings.Contains(line, "\n") {
		return line
	}
	return block(members)
}

func block(members []string) string {
	return "{\n  " + strings.ReplaceAll(strings.Join(members, ",\n"), "\n", "\n  ") + "\n}"
}

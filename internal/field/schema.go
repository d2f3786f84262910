package field

import (
	"bytes"
	"encoding/json"
	"fmt"
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

func (m Mapping) schema() []string {
	var names []string
	for _, f := range m.Fields {
		if _, elsewhere := f.Value.(Elsewhere); !elsewhere {
			names = append(names, f.Name)
		}
	}
	members := []string{
		member("$comment", "a mapping with "+strings.Join(names, ", ")),
		`"type": "object"`, `"additionalProperties": false`, `"patternProperties": {"^x-": true}`,
	}
	if m.Required != nil {
		members = append(members, member("required", m.Required))
	}
	return append(members, `"properties": `+block(m.Fields.Properties()))
}

// Properties are the members of the JSON Schema of a mapping that has the fields, beside others.
func (l List) Properties() []string {
	properties := make([]string, len(l))
	for i, f := range l {
		properties[i] = fmt.Sprintf("%q: %s", f.Name, f.Schema())
	}
	return properties
}

// Elsewhere is a value that something else reads and checks.
type Elsewhere struct {
	Schema string // of the whole field
	Shows  any    // what is printed; nil: nothing
}

func (Elsewhere) read(*decode.Node, *decode.Reader) {}
func (Elsewhere) check() []decode.FieldError        { return nil }
func (e Elsewhere) print() any                      { return e.Shows }
func (Elsewhere) expand(*expander, string)          {}
func (Elsewhere) schema() []string                  { return nil }

// Schema is the JSON Schema of what may stand in the field.
func (f Field) Schema() string {
	if elsewhere, is := f.Value.(Elsewhere); is {
		return strings.TrimSpace(elsewhere.Schema)
	}
	members := f.Value.schema()
	if about := f.description(); about != "" {
		members = append([]string{member("description", about)}, members...)
	}
	return object(members...)
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
func (l List) Schema(description string) string {
	return block(append([]string{member("description", description)}, Mapping{Fields: l}.schema()...))
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

// object is on one line where it is short.
func object(members ...string) string {
	line := "{" + strings.Join(members, ", ") + "}"
	if len(line) <= 200 && !strings.Contains(line, "\n") {
		return line
	}
	return block(members)
}

func block(members []string) string {
	return "{\n  " + strings.ReplaceAll(strings.Join(members, ",\n"), "\n", "\n  ") + "\n}"
}

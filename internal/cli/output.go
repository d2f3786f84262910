package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Output is how a command shows what it found: what -o says.
type Output struct {
	format   format
	template string // of jsonpath
}

type format string

const (
	formatTable format = "table"
	formatWide  format = "wide"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
	formatName  format = "name"
	formatPath  format = "jsonpath"
)

// jsonpathPrefix is what a template follows.
const jsonpathPrefix = string(formatPath) + "="

// outputs are what commands take that show one thing; those that show lists take more.
var outputs = []format{formatTable, formatJSON, formatYAML, formatPath}

// ParseOutput reads what -o says: table, json, yaml, or jsonpath=TEMPLATE.
func ParseOutput(text string) (Output, error) { return parseOutput(text, outputs) }

// OutputUsage is the help of -o for commands that use [ParseOutput].
var OutputUsage = outputUsage(outputs)

func outputUsage(allowed []format) string {
	words := make([]string, len(allowed))
	for i, f := range allowed {
		if words[i] = string(f); f == formatPath {
			words[i] = jsonpathPrefix + "TEMPLATE"
		}
	}
	return anyOf(words)
}

// anyOf writes "a, b or c".
func anyOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func parseOutput(text string, allowed []format) (Output, error) {
	o := Output{format: format(text)}
	if template, ok := strings.CutPrefix(text, jsonpathPrefix); ok {
		o = Output{formatPath, template}
		if _, err := parsePath(template); err != nil {
			return Output{}, usage("-o %s: %w; a template is as '{.items[*].key}'", text, err)
		}
	} else if o.format == formatPath {
		return Output{}, usage("-o jsonpath: add a template, as jsonpath='{.items[*].key}'")
	}
	if !slices.Contains(allowed, o.format) {
		return Output{}, usage("-o %q: want %s", text, outputUsage(allowed))
	}
	return o, nil
}

// Table says that it is for people: nothing but [Output.Write] is left otherwise.
func (o Output) Table() bool { return o.format == formatTable || o.format == formatWide }

// whole says that all is written as one object.
func (o Output) whole() bool {
	return o.format == formatJSON || o.format == formatYAML || o.format == formatPath
}

// Write writes v as JSON, as YAML, or what the template finds in it.
func (o Output) Write(w io.Writer, v any) error {
	switch o.format {
	case formatYAML:
		return writeYAML(w, v)
	case formatPath:
		return writePath(w, v, o.template)
	default:
		return writeJSON(w, v, false)
	}
}

// writeJSON writes v over several lines, or, for streams, on one.
func writeJSON(w io.Writer, v any, compact bool) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if !compact {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// writeYAML writes v with the fields of its JSON, in their order.
func writeYAML(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(escaped(b), &doc); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	block(&doc)
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&doc); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	_, err = w.Write(out.Bytes())
	return err
}

// escaped is JSON in which what YAML takes in no document is escaped: JSON has it in texts as it is.
func escaped(text []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(text) {
		if r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	return out.Bytes()
}

// block takes the style of JSON out of nodes. What is empty stays as [] and {}, and texts that look like something else
// stay quoted by their tag.
func block(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, c := range n.Content {
		block(c)
	}
}

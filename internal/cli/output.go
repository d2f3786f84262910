package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
	"k8s.io/client-go/util/jsonpath"
)

// Output is how a command shows what it found. It is the [pflag.Value] of -o.
type Output struct {
	format   format
	template string // of jsonpath
	allowed  []format
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

// OutputFlag adds -o to a command that shows one thing: table, json, yaml or jsonpath=TEMPLATE.
func OutputFlag(cmd *cobra.Command, o *Output) {
	outputFlag(cmd, o, formatTable, formatJSON, formatYAML, formatPath)
}

// outputFlag adds -o with these formats, the first of them by default.
func outputFlag(cmd *cobra.Command, o *Output, allowed ...format) {
	o.format, o.allowed = allowed[0], allowed
	cmd.Flags().VarP(o, "output", "o", anyOf(o.words("TEMPLATE")))
	fixedWords(cmd, "output", o.words("")...)
}

// words are the allowed formats as they are typed.
func (o *Output) words(template string) []string {
	words := make([]string, len(o.allowed))
	for i, f := range o.allowed {
		if words[i] = string(f); f == formatPath {
			words[i] = jsonpathPrefix + template
		}
	}
	return words
}

// anyOf writes "a, b or c".
func anyOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// String implements [pflag.Value].
func (o *Output) String() string {
	if o.format == formatPath {
		return jsonpathPrefix + o.template
	}
	return string(o.format)
}

// Type implements [pflag.Value].
func (o *Output) Type() string { return "string" }

// Set implements [pflag.Value].
func (o *Output) Set(text string) error {
	template, isPath := strings.CutPrefix(text, jsonpathPrefix)
	switch {
	case isPath:
		if _, err := parsePath(template); err != nil {
			return usage("-o %s: %w; a template is as '{.items[*].key}'", text, err)
		}
		o.format, o.template = formatPath, template
	case text == string(formatPath):
		return usage("-o jsonpath: add a template, as jsonpath='{.items[*].key}'")
	case !slices.Contains(o.allowed, format(text)):
		return usage("-o %q: want %s", text, anyOf(o.words("TEMPLATE")))
	default:
		o.format = format(text)
	}
	return nil
}

// Table says that it is for people: nothing but [Output.Write] is left otherwise.
func (o *Output) Table() bool { return o.format == formatTable || o.format == formatWide }

// whole says that all is written as one object.
func (o *Output) whole() bool {
	return o.format == formatJSON || o.format == formatYAML || o.format == formatPath
}

// Write writes v as JSON, as YAML, or what the template finds in it: on a terminal as [Shown] does.
func (o *Output) Write(w io.Writer, v any) error {
	w = Shown(w)
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
	e := json.NewEncoder(Shown(w))
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

// parsePath reads a template of JSONPath as kubectl does: braces and the first dot may be left out of a plain path.
func parsePath(text string) (*jsonpath.JSONPath, error) {
	if text == "" {
		return nil, errors.New("the path is empty")
	}
	if !strings.Contains(text, "{") {
		text = "{." + strings.TrimPrefix(text, ".") + "}"
	}
	p := jsonpath.New("jsonpath").AllowMissingKeys(true)
	if err := p.Parse(text); err != nil {
		return nil, err
	}
	return p, nil
}

// writePath writes what the template finds in v, with a line end.
func writePath(w io.Writer, v any, template string) error {
	p, err := parsePath(template)
	if err != nil {
		return err
	}
	tree, err := treeOf(v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := p.Execute(&out, tree); err != nil {
		return usage("-o jsonpath=%s: %w", template, err)
	}
	if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteByte('\n')
	}
	_, err = w.Write(out.Bytes())
	return err
}

// treeOf is v as JSON has it. Whole numbers stay whole, so that tokens are shown as they are.
func treeOf(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	return withNumbers(tree), nil
}

func withNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // it is a number
		return f
	case []any:
		for i := range v {
			v[i] = withNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = withNumbers(v[name])
		}
	}
	return v
}

// sortBy orders items by what a path finds in each: numbers and times by value, anything else as text. Items without it
// come first, and those that are equal stay in order.
func sortBy[T any](items []T, path string) error {
	type keyed struct {
		item T
		key  any
	}
	all, found := make([]keyed, len(items)), len(items) == 0
	var fields []string
	for i := range items {
		tree, err := treeOf(items[i])
		if err != nil {
			return err
		}
		p, err := parsePath(path)
		if err != nil {
			return usage("--sort-by %s: %w; a path is as .restarts", path, err)
		}
		results, err := p.FindResults(tree)
		if err != nil {
			return usage("--sort-by %s: %w", path, err)
		}
		all[i].item = items[i]
		if len(results) > 0 && len(results[0]) > 0 && results[0][0].IsValid() {
			all[i].key, found = results[0][0].Interface(), true
		}
		fields = fieldsOf(tree)
	}
	if !found {
		return usage("--sort-by %s: nothing listed has it; the fields are %s", path, strings.Join(fields, ", "))
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return compareValues(a.key, b.key) })
	for i := range all {
		items[i] = all[i].item
	}
	return nil
}

func fieldsOf(tree any) []string {
	fields, _ := tree.(map[string]any)
	return slices.Sorted(maps.Keys(fields))
}

func compareValues(a, b any) int {
	if a == nil || b == nil {
		return cmp.Compare(rank(a), rank(b))
	}
	x, isNumber := numberOf(a)
	y, areNumbers := numberOf(b)
	if isNumber && areNumbers {
		return cmp.Compare(x, y)
	}
	s, t := fmt.Sprint(a), fmt.Sprint(b)
	u, notTime := time.Parse(time.RFC3339Nano, s)
	v, neither := time.Parse(time.RFC3339Nano, t)
	if notTime == nil && neither == nil {
		return u.Compare(v)
	}
	return cmp.Compare(s, t)
}

func rank(v any) int {
	if v == nil {
		return 0
	}
	return 1
}

func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	default:
		return 0, false
	}
}

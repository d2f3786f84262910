package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/variables"
)

// maxAliased bounds what aliases may make of a file: a few lines can stand for billions.
const maxAliased = 200_000

// parse reads one file. The node is nil when the file holds nothing or cannot be read as YAML.
func parse(file string, content []byte, schema *jsonschema.Schema, p *decode.Problems) *decode.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var doc, second yaml.Node
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		if err = decoder.Decode(&second); err == nil {
			p.Errs = append(p.Errs, decode.Error{
				File: file, Line: second.Line, Col: max(second.Column, 1),
				Message: "a second document begins here, a file holds one: use several files",
			})
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		p.Errs = append(p.Errs, syntaxError(file, content, err))
		return nil
	}
	c := &converter{file: file, problems: p, open: map[*yaml.Node]bool{}}
	root := c.convert(doc.Content[0], schema, &decode.Node{Index: -1})
	if root.Shape == decode.Void || c.aliased > maxAliased {
		return nil
	}
	root.Parent = nil
	return root
}

// syntaxError is at the place where the YAML parser stopped. The message adds where the value that it parsed begins.
func syntaxError(file string, content []byte, err error) decode.Error {
	stop := &yaml.LoadError{Message: err.Error()}
	errors.As(err, &stop)
	at, message := stop.Mark, "is not YAML: "+stop.Message
	if at.Line == 0 { // a character that is not allowed, of which the offset in bytes is known
		before := content[:min(at.Index, len(content))]
		at.Line = 1 + bytes.Count(before, []byte("\n"))
		at.Column = 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	}
	if begin := stop.ContextMark; begin.Line > 0 && begin != at {
		message += fmt.Sprintf(", %s at %s", stop.ContextMsg, begin)
	}
	return decode.Error{File: file, Line: at.Line, Col: max(at.Column, 1), Message: message}
}

// converter makes nodes of one file.
type converter struct {
	file     string
	problems *decode.Problems
	open     map[*yaml.Node]bool // what is being converted: an alias to it has no end
	aliases  int                 // how many aliases lead to where it is
	aliased  int                 // nodes made by way of aliases
}

// convert makes a node at the place of at: its parent, and its key or index there.
func (c *converter) convert(y *yaml.Node, s *jsonschema.Schema, at *decode.Node) *decode.Node {
	n := &decode.Node{Place: c.place(y), Parent: at.Parent, Key: at.Key, Index: at.Index, Rule: ruleOf(s)}
	if y.Kind == yaml.AliasNode {
		c.aliases++
		defer func() { c.aliases-- }()
		y = y.Alias
		n.Place = c.place(y)
	}
	if c.aliases > 0 {
		c.aliased++
	}
	switch {
	case c.open[y]:
		n.Shape = decode.Void
		c.problems.Add(n, "the anchor &%s is used within itself", y.Anchor)
		return n
	case c.aliased > maxAliased:
		n.Shape = decode.Void
		if c.aliased == maxAliased+1 {
			c.problems.Add(n, "aliases stand for more than %d values, the most that is read", maxAliased)
		}
		return n
	}
	c.open[y] = true
	defer delete(c.open, y)
	if tag := y.ShortTag(); !strings.HasPrefix(tag, "!!") && tag != "" {
		c.problems.Add(n, "has the tag %s, which means nothing here: leave it out", variables.Clipped(tag))
	}
	switch y.Kind {
	case yaml.MappingNode:
		n.Shape = decode.Mapping
		c.fill(n, y)
	case yaml.SequenceNode:
		n.Shape = decode.List
		for i, item := range y.Content {
			n.Items = append(n.Items, c.convert(item, itemSchema(schemaOf(n)), &decode.Node{Parent: n, Index: i}))
		}
	default:
		c.scalar(n, y)
	}
	return n
}

func (c *converter) scalar(n *decode.Node, y *yaml.Node) {
	n.Shape, n.Raw, n.Text = decode.Scalar, y.Value, y.Value
	n.Plain = y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	// Nothing, or null, is as good as left out, but where text is taken as it is written.
	if y.ShortTag() == "!!null" && (n.Rule == nil || !n.Rule.Free()) {
		n.Shape = decode.Void
	}
}

// fill converts the fields of a mapping, then what its merge keys bring in.
func (c *converter) fill(n *decode.Node, y *yaml.Node) {
	lines := map[string]int{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		at := &decode.Node{Place: c.place(y.Content[i]), Parent: n, Key: key.Value, Index: -1}
		if key.Kind != yaml.ScalarNode {
			c.problems.AddAt(at.Place, n.Field(), "a field's name must be text")
			continue
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, value)
			continue
		}
		if forPeople(schemaOf(n), key.Value) {
			continue
		}
		if line, twice := lines[key.Value]; twice {
			c.problems.AddAt(at.Place, decode.Under(n.Field(), key.Value),
				"stands twice, first in line %d: it may stand once", line)
			continue
		}
		lines[key.Value] = at.Line
		n.Entries = append(n.Entries, decode.Entry{Name: key.Value, Place: at.Place, Value: c.convert(value,
			fieldSchema(schemaOf(n), key.Value), at)})
	}
	for _, from := range merged {
		c.merge(n, from)
	}
}

// forPeople says that a key is not for the program. Where names are free, as in labels, env and headers, x- has no
// meaning of its own.
func forPeople(s *jsonschema.Schema, name string) bool {
	free := s != nil && s.Properties == nil && s.AdditionalProperties != nil
	return !free && strings.HasPrefix(name, "x-")
}

// merge adds the fields that a merge key brings in. What is there already wins.
func (c *converter) merge(n *decode.Node, from *yaml.Node) {
	target := from
	if from.Kind == yaml.AliasNode {
		target = from.Alias
	}
	if target.Kind == yaml.SequenceNode && !c.open[target] {
		c.open[target] = true
		for _, one := range target.Content {
			c.merge(n, one)
		}
		delete(c.open, target)
		return
	}
	if target.Kind != yaml.MappingNode {
		c.problems.AddAt(c.place(from), n.Field(), "<< takes an alias of a mapping, or a list of them")
		return
	}
	brought := c.convert(from, schemaOf(n), &decode.Node{Parent: n.Parent, Key: n.Key, Index: n.Index})
	for _, e := range brought.Entries {
		if !slices.ContainsFunc(n.Entries, func(own decode.Entry) bool { return own.Name == e.Name }) {
			e.Value.Parent = n
			n.Entries = append(n.Entries, e)
		}
	}
}

func (c *converter) place(y *yaml.Node) decode.Place {
	return decode.Place{File: c.file, Line: y.Line, Col: y.Column}
}

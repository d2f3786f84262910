package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// maxAliased bounds what aliases may make of a file: a few lines can stand for billions.
const maxAliased = 200_000

// parse reads one file. The node is nil when the file holds nothing or cannot be read as YAML.
func parse(file string, content []byte, p *problems) *node {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var doc, second yaml.Node
	err := decoder.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		if err = decoder.Decode(&second); err == nil {
			p.errs = append(p.errs, Error{
				File: file, Line: second.Line, Col: max(second.Column, 1),
				Message: "a second document begins here, a file holds one: use several files",
			})
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		p.errs = append(p.errs, syntaxError(file, content, err))
		return nil
	}
	c := &converter{file: file, problems: p, open: map[*yaml.Node]bool{}}
	root := c.convert(doc.Content[0], compiled(), &node{index: -1})
	if root.kind == void || c.aliased > maxAliased {
		return nil
	}
	root.parent = nil
	return root
}

var (
	yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	// For these the reader counts lines from 0.
	fromZero = regexp.MustCompile(`^did not find expected (key|'-' indicator|',' or)`)
)

// syntaxError is what the YAML reader says. It names no column, and no line where it is the first one or the bytes are no text.
func syntaxError(file string, content []byte, err error) Error {
	text, line, col := err.Error(), 1, 1
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
			if fromZero.MatchString(text) {
				line++
			}
		}
	}
	if strings.Contains(text, "control characters") || strings.Contains(text, "UTF-8") {
		line, col = firstNoText(content)
	}
	return Error{File: file, Line: line, Col: col, Message: "is not YAML: " + text}
}

// firstNoText is the place of the first character that no text holds.
func firstNoText(content []byte) (line, col int) {
	line, col = 1, 1
	for len(content) > 0 {
		r, size := utf8.DecodeRune(content)
		if r == utf8.RuneError && size == 1 || unicode.IsControl(r) && !strings.ContainsRune("\t\r\n\u0085", r) {
			return line, col
		}
		if col++; r == '\n' {
			line, col = line+1, 1
		}
		content = content[size:]
	}
	return 1, 1
}

// converter makes nodes of one file.
type converter struct {
	file     string
	problems *problems
	open     map[*yaml.Node]bool // what is being converted: an alias to it has no end
	aliases  int                 // how many aliases lead to where it is
	aliased  int                 // nodes made by way of aliases
}

// convert makes a node at the place that at tells: its parent, and its key or index there.
func (c *converter) convert(y *yaml.Node, s *jsonschema.Schema, at *node) *node {
	n := &node{file: c.file, line: y.Line, col: y.Column, parent: at.parent, key: at.key, index: at.index, schema: resolve(s)}
	if y.Kind == yaml.AliasNode {
		c.aliases++
		defer func() { c.aliases-- }()
		y = y.Alias
		n.line, n.col = y.Line, y.Column
	}
	if c.aliases > 0 {
		c.aliased++
	}
	switch {
	case c.open[y]:
		n.kind = void
		c.problems.add(n, "the anchor &%s is used within itself", y.Anchor)
		return n
	case c.aliased > maxAliased:
		n.kind = void
		if c.aliased == maxAliased+1 {
			c.problems.add(n, "aliases stand for more than %d values, the most that is read", maxAliased)
		}
		return n
	}
	c.open[y] = true
	defer delete(c.open, y)
	if tag := y.ShortTag(); !strings.HasPrefix(tag, "!!") && tag != "" {
		c.problems.add(n, "has the tag %s, which means nothing here: leave it out", clipped(tag))
	}
	switch y.Kind {
	case yaml.MappingNode:
		n.kind = mapping
		c.fill(n, y)
	case yaml.SequenceNode:
		n.kind = list
		for i, item := range y.Content {
			n.items = append(n.items, c.convert(item, itemSchema(n.schema), &node{parent: n, index: i}))
		}
	default:
		c.scalar(n, y)
	}
	return n
}

func (c *converter) scalar(n *node, y *yaml.Node) {
	n.kind, n.raw, n.text = scalar, y.Value, y.Value
	n.plain = y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	// Nothing, or null, is as good as left out, but where text is taken as it is written.
	if y.ShortTag() == "!!null" && !n.free() {
		n.kind = void
	}
}

// fill converts the fields of a mapping, then what its merge keys bring in.
func (c *converter) fill(n *node, y *yaml.Node) {
	lines := map[string]int{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		at := &node{file: c.file, line: y.Content[i].Line, col: y.Content[i].Column, parent: n, key: key.Value, index: -1}
		if key.Kind != yaml.ScalarNode {
			c.problems.addAt(at, n.field(), "a field's name must be text")
			continue
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, value)
			continue
		}
		if n.forPeople(key.Value) {
			continue
		}
		if line, twice := lines[key.Value]; twice {
			c.problems.addAt(at, under(n.field(), key.Value), "stands twice, first in line %d: it may stand once", line)
			continue
		}
		lines[key.Value] = at.line
		n.entries = append(n.entries, entry{key.Value, at.line, at.col, c.convert(value, fieldSchema(n.schema, key.Value), at)})
	}
	for _, from := range merged {
		c.merge(n, from)
	}
}

// forPeople says that a key is not for the program. Where names are free, as in labels, env and headers, x- has no
// meaning of its own.
func (n *node) forPeople(name string) bool {
	free := n.schema != nil && n.schema.Properties == nil && n.schema.AdditionalProperties != nil
	return !free && strings.HasPrefix(name, "x-")
}

// merge adds the fields that a merge key brings in. What is there already wins.
func (c *converter) merge(n *node, from *yaml.Node) {
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
		at := &node{file: c.file, line: from.Line, col: from.Column}
		c.problems.addAt(at, n.field(), "<< takes an alias of a mapping, or a list of them")
		return
	}
	brought := c.convert(from, n.schema, &node{parent: n.parent, key: n.key, index: n.index})
	for _, e := range brought.entries {
		if !n.has(e.name) {
			e.value.parent = n
			n.entries = append(n.entries, e)
		}
	}
}

func (n *node) has(name string) bool {
	for _, e := range n.entries {
		if e.name == name {
			return true
		}
	}
	return false
}

// Package decode is what configurations are read with: values that know where they stand, variables in them, and a
// list of all that is wrong.
//
// A [Node] is a value of a configuration. What reads the files (YAML, as a rule) makes the nodes. A kind of task then
// takes its fields from its own node with a [Reader]. What a reader gives is final text: $(NAME) is replaced. Only the
// texts of kinds stay as they are written and are replaced at each start. Errors never quote what a variable holds.
package decode

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/variables"
)

// Place is where something is written.
type Place struct {
	File      string
	Line, Col int // from 1
}

// String is FILE:LINE:COL.
func (p Place) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col) }

// Node is a value of a configuration: where it stands, what is written there, and what may stand there. Its reading
// methods may be called on nil, which is what is left out.
type Node struct {
	Place
	Parent *Node
	Key    string // in a mapping
	Index  int    // in a list; -1 in a mapping

	Shape   Shape
	Raw     string // of a scalar: as written
	Plain   bool   // written without quotes
	Text    string // of a scalar: with variables replaced; Raw until then
	Settled bool   // Text holds the final value
	Bad     bool   // something was already said about it
	Rule    Rule   // nil for an unknown field

	Entries []Entry
	Items   []*Node
}

// Shape is what a node is.
type Shape int

// The shapes.
const (
	Scalar Shape = iota
	Mapping
	List
	Void // left out: nothing is written, or a variable holds nothing
)

// Entry is a field of a mapping.
type Entry struct {
	Name  string
	Place Place // of the name
	Value *Node
}

// Rule says what may stand in a node's place.
type Rule interface {
	// Allowed is what may stand here, in words, for errors.
	Allowed() string
	// AnyText says that the field is for text of any form.
	AnyText() bool
	// Free says that any text will do, the empty one too.
	Free() bool
	// Valid says whether a scalar's final Text may stand here.
	Valid(n *Node) bool
}

// Clone is a copy that shares no node below n with it: what is said of one does not count for the other.
func (n *Node) Clone() *Node {
	if n == nil {
		return nil
	}
	c := *n
	c.Entries, c.Items = slices.Clone(n.Entries), slices.Clone(n.Items)
	for i := range c.Entries {
		c.Entries[i].Value = c.Entries[i].Value.Clone()
		c.Entries[i].Value.Parent = &c
	}
	for i := range c.Items {
		c.Items[i] = c.Items[i].Clone()
		c.Items[i].Parent = &c
	}
	return &c
}

// Get is the value of a field, nil when it is left out.
func (n *Node) Get(name string) *Node {
	if n == nil {
		return nil
	}
	for _, e := range n.Entries {
		if e.Name == name && e.Value.Shape != Void {
			return e.Value
		}
	}
	return nil
}

// At is Get along several names.
func (n *Node) At(names ...string) *Node {
	for _, name := range names {
		n = n.Get(name)
	}
	return n
}

// List are the items of a list.
func (n *Node) List() []*Node {
	if n == nil {
		return nil
	}
	return n.Items
}

// IsBad says whether something was already said about it.
func (n *Node) IsBad() bool { return n != nil && n.Bad }

// Field is where n stands, as in groups[0].tasks[2].exec; empty for the whole.
func (n *Node) Field() string {
	if n == nil || n.Parent == nil {
		return ""
	}
	if n.Index >= 0 {
		return fmt.Sprintf("%s[%d]", n.Parent.Field(), n.Index)
	}
	return Under(n.Parent.Field(), n.Key)
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,128}$`)

// Under is the field of that name below another.
func Under(field, name string) string {
	switch {
	case !plainName.MatchString(name):
		return fmt.Sprintf("%s[%q]", field, variables.Clipped(name))
	case field == "":
		return name
	default:
		return field + "." + name
	}
}

// Scalars calls f for every scalar of n.
func (n *Node) Scalars(f func(*Node)) {
	if n == nil {
		return
	}
	if n.Shape == Scalar {
		f(n)
	}
	for _, e := range n.Entries {
		e.Value.Scalars(f)
	}
	for _, item := range n.Items {
		item.Scalars(f)
	}
}

// Written is n as it is written, for hashes: texts, mappings and lists of them.
func (n *Node) Written() any {
	switch n.Shape {
	case Mapping:
		m := make(map[string]any, len(n.Entries))
		for _, e := range n.Entries {
			if e.Value.Shape != Void {
				m[e.Name] = e.Value.Written()
			}
		}
		return m
	case List:
		l := make([]any, len(n.Items))
		for i, item := range n.Items {
			l[i] = item.Written()
		}
		return l
	default:
		return n.Raw
	}
}

// Quoted is what is written at n, for an error: never what a variable holds.
func (n *Node) Quoted() string {
	if n.HasVariables() {
		return variables.Clipped(n.Raw)
	}
	return fmt.Sprintf("%q", variables.Clipped(n.Raw))
}

// HasVariables says whether a scalar refers to what is not in the file.
func (n *Node) HasVariables() bool { return HasVariables(n.Raw) }

// HasVariables says whether a text may refer to what is known only when it is expanded.
func HasVariables(text string) bool { return strings.Contains(text, "$(") }

// variableOnly matches a value that is only $(NAME): it takes its field's type.
var variableOnly = regexp.MustCompile(`^\$\([^)]*\)$`)

// VariableOnly says whether a scalar is one variable and nothing else.
func (n *Node) VariableOnly() bool { return variableOnly.MatchString(n.Raw) }

// Find is the node at a path of names and indices below n, or the last on the way to it.
func (n *Node) Find(path []string) *Node {
	found, in := n.find(path)
	if found == nil {
		return in
	}
	return found
}

// find is the node at a path of names and indices below n. It is nil when the node is left out, and then the node that
// it would be in is given.
func (n *Node) find(path []string) (found, in *Node) {
	for _, step := range path {
		in = n
		if n = n.step(step); n == nil {
			return nil, in
		}
	}
	return n, in
}

func (n *Node) step(name string) *Node {
	if n.Shape != List {
		return n.Get(name)
	}
	i, err := strconv.Atoi(name)
	if err != nil || i < 0 || i >= len(n.Items) {
		return nil
	}
	return n.Items[i]
}

// KeyPlace is where the name of a field is written, n itself when it is left out.
func (n *Node) KeyPlace(name string) Place {
	i := slices.IndexFunc(n.Entries, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return n.Place
	}
	return n.Entries[i].Place
}

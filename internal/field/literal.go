package field

import (
	"cmp"

	"github.com/shardctl/shardctl/internal/decode"
)

// Literal is a text that is final once it is read, and no secret: a name, an address, the path of a file, one of a few
// words. It is printed also where it is empty.
type Literal struct {
	settled
	To      *string
	Default string
	Type    string // the definition in the schema; empty: text
	// Valid is what the definition takes, which also lets through what looks like a variable. Nil: any text that the
	// definition takes.
	Valid func(string) bool
}

func (t Literal) read(n *decode.Node, r *decode.Reader) {
	text, ok := r.Value(n)
	if ok && t.Valid != nil && !t.Valid(text) {
		r.Refuse(n, n.Rule.Allowed())
		ok = false
	}
	if *t.To = text; !ok {
		*t.To = t.Default
	}
}

func (t Literal) print() any { return *t.To }
func (t Literal) holds() any { return *t.To }

func (t Literal) schema(int) []string {
	return []string{Ref(cmp.Or(t.Type, "text")), member("default", t.Default)}
}

// Literals are a list of texts that are final once they are read, or expanded elsewhere: names, or a command with its
// arguments, of which secrets are hidden where it is printed.
type Literals struct {
	settled
	To    *[]string
	Min   int               // how many there are at least
	Valid func(string) bool // of each; nil: any
	Must  string            // what Valid takes, in words
}

func (t Literals) read(n *decode.Node, r *decode.Reader) {
	*t.To = nil
	for _, item := range n.List() {
		text, ok := r.Value(item)
		if ok && t.Valid != nil && !t.Valid(text) {
			r.Refuse(item, t.Must)
		}
		*t.To = append(*t.To, text)
	}
}

func (t Literals) print() any { return decode.WithoutSecretsOf(*t.To) }
func (t Literals) holds() any { return *t.To }

func (t Literals) schema(int) []string {
	members := []string{`"type": "array"`, `"items": {"$ref": "#/$defs/text"}`, `"default": []`}
	if t.Min > 0 {
		members = []string{members[0], member("minItems", t.Min), members[1]}
	}
	return members
}

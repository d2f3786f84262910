package decode

// Kind is one of several ways to fill a place in a configuration, chosen by the field that has its name: a source of
// messages, a sink, or a lister, which is the T. It is a value; its functions may be called concurrently.
type Kind[T any] struct {
	Field string        // the field that chooses the kind, such as kafka
	Form  func() string // see Schema
	Read  func(n *Node, r *Reader) T
}

// Name returns the field that chooses the kind.
func (k Kind[T]) Name() string { return k.Field }

// Schema returns the JSON Schema (draft 2020-12) of the field's value. It may refer to definitions of the whole, such
// as #/$defs/text. A text of it that has neither a pattern nor an enum stays as it is written, for the T to expand.
func (k Kind[T]) Schema() string { return k.Form() }

// Parse reads the field's value, which has passed the schema. What is wrong beyond single values is for the T's
// Validate.
func (k Kind[T]) Parse(n *Node, r *Reader) T { return k.Read(n, r) }

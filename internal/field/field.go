// Package field declares the fields of a mapping in a configuration: each once, beside the variable that holds it.
//
// A [List] reads, checks, prints and expands its fields, and gives the JSON Schema of the mapping. The tables in docs
// are made of that schema.
package field

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/variables"
)

// List are the fields of a mapping, in the order in which they are printed and documented.
type List []Field

// Field is one field of a mapping.
type Field struct {
	Name  string
	Value Value
	// Doc is what it means, in sentences. It may hold code in backquotes.
	Doc string
	// Page is what the page of the configuration says in its place; empty: the same.
	Page string
	// Unset is what holds where the field is left out, in words. Empty: its default, or nothing.
	Unset string
	// With says which tasks have the field, of fields of a task.
	With With
	// Live says that a change takes effect while a run goes on.
	Live bool
	// Off says that the field has no effect beside the others as they are. It is not printed.
	Off bool
	// Shown says that the field is shown wherever its task or its group is: in answers of the API and on the page, and
	// of a task by describe.
	Shown bool
}

// With says which tasks have a field.
type With int

// Which tasks have a field.
const (
	Any    With = iota
	Owned       // those without ticks
	Ticked      // those with a schedule
)

// For are the fields that all tasks have, and those that only such tasks have.
func (l List) For(with With) List {
	return slices.DeleteFunc(slices.Clone(l), func(f Field) bool { return f.With != Any && f.With != with })
}

// Names are the names of the fields that only such tasks have.
func (l List) Names(with With) []string {
	var names []string
	for _, f := range l {
		if f.With == with {
			names = append(names, f.Name)
		}
	}
	return names
}

// Value is what may stand in a field, and the variable that holds it: [Text], [Texts], [Patterns], [Map], [Labels],
// [Literal], [Literals], [Number], [Optional], [Counter], [Numbers], [Duration], [Truth], [Mapping], or [Elsewhere]. A
// variable that is zero stands for the field's default.
type Value interface {
	// read reads n, which is nil where the field is left out.
	read(n *decode.Node, r *decode.Reader)
	// check says what is wrong, with paths from the value.
	check() []decode.FieldError
	// print is what stands in a configuration for it; nil where the field is left out.
	print() any
	// expand replaces the variables, and checks what they hold.
	expand(e *expander, field string)
	// holds is the value itself, to compare it.
	holds() any
	// schema are the members of its JSON Schema; what has a description and is longer than width takes several lines.
	schema(width int) []string
}

// settled is what is of values that are read once and for all, and of those that something else checks and expands.
type settled struct{}

func (settled) check() []decode.FieldError { return nil }
func (settled) expand(*expander, string)   {}

// Parse reads all fields of n, which has no others, and checks that the variables in their texts will be set.
func (l List) Parse(n *decode.Node, r *decode.Reader) {
	r.CheckStart(n, nil)
	l.Read(n, r)
}

// Read reads the fields out of n.
func (l List) Read(n *decode.Node, r *decode.Reader) {
	for _, f := range l {
		f.Value.read(n.Get(f.Name), r)
	}
}

// Check says what is wrong with each field by itself. What holds variables is checked by Expand.
func (l List) Check() []decode.FieldError {
	var wrong []decode.FieldError
	for _, f := range l {
		wrong = append(wrong, decode.Within(f.Name, f.Value.check())...)
	}
	return wrong
}

// Print shows the fields as they are written, defaults filled in, secrets hidden.
func (l List) Print() decode.Fields {
	var fields decode.Fields
	for _, f := range l {
		if value := f.Value.print(); value != nil && !f.Off {
			fields = append(fields, decode.Field{Name: f.Name, Value: value})
		}
	}
	return fields
}

// AnyShown reports whether the list has fields that are shown. Where it has none, no list need be made to show them.
func (l List) AnyShown() bool { return slices.ContainsFunc(l, func(f Field) bool { return f.Shown }) }

// Shown are the fields that are shown, by name, as a configuration has them; nil where there are none.
func (l List) Shown() map[string]string {
	shown := slices.DeleteFunc(slices.Clone(l), func(f Field) bool { return !f.Shown })
	if len(shown) == 0 {
		return nil
	}
	all := make(map[string]string, len(shown))
	for _, f := range shown.Print() {
		all[f.Name] = fmt.Sprint(f.Value)
	}
	return all
}

// Changed names the fields that are not live and hold something else than in before, the same list of another value. A
// field of a mapping in the list is named with it, as in lease.duration, and what is below that counts as a whole.
func (l List) Changed(before List) []string {
	var names []string
	for i, f := range l {
		if below, is := f.Value.(Mapping); is {
			for j, in := range below.Fields {
				if old := before[i].Value.(Mapping).Fields[j]; in.changed(old) {
					names = append(names, f.Name+"."+in.Name)
				}
			}
			continue
		}
		if f.changed(before[i]) {
			names = append(names, f.Name)
		}
	}
	return names
}

func (f Field) changed(before Field) bool {
	return !f.Live && !reflect.DeepEqual(f.Value.holds(), before.Value.holds())
}

// Expand replaces the variables in all fields by what expand gives, fills in defaults, and checks the result. All that
// is wrong is in one error. It names each field, below kind, and never quotes what a variable holds.
func (l List) Expand(kind string, expand func(field, text string) (string, error)) error {
	e := &expander{expand: expand}
	l.expand(e, kind)
	return Join(e.errs...)
}

func (l List) expand(e *expander, below string) {
	for _, f := range l {
		f.Value.expand(e, below+"."+f.Name)
	}
}

// Join is all errors in one line; nil where there are none.
func Join(errs ...error) error {
	var all error
	for _, err := range errs {
		switch {
		case err == nil:
		case all == nil:
			all = err
		default:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

// expander gathers what is wrong, so that all of it is said at once.
type expander struct {
	expand func(field, text string) (string, error)
	errs   []error
}

// text is a text with its variables replaced; false where one is not set.
func (e *expander) text(field, text string) (string, bool) {
	value, err := e.expand(field, text)
	if err != nil {
		e.errs = append(e.errs, err)
	}
	return value, err == nil
}

// refuse says what is wrong with what the variables of a text hold.
func (e *expander) refuse(field, written string, wrong *decode.FieldError) {
	switch {
	case wrong == nil:
	case wrong.Message != "":
		e.errs = append(e.errs, errors.New(field+": "+wrong.Message))
	case decode.HasVariables(written):
		e.errs = append(e.errs, fmt.Errorf("%s: what %s holds is not allowed, must be %s", field,
			variables.Clipped(masked(written)), wrong.Must))
	default:
		e.errs = append(e.errs, fmt.Errorf("%s: must be %s", field, wrong.Must))
	}
}

// masked is a text without the passwords in it. It may be the address of a server without a scheme.
func masked(text string) string {
	if strings.Contains(text, "://") {
		return decode.WithoutPasswords(text)
	}
	return strings.TrimPrefix(decode.WithoutPasswords("x://"+text), "x://")
}

// words are alternatives as people write them: a, b or c.
func words(all []string) string {
	last := len(all) - 1
	if last == 0 {
		return all[0]
	}
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

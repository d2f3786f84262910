package field

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
)

// Number is a whole number. 0 stands for the default, unless it may itself be what is meant.
type Number struct {
	To       *int
	Default  int
	Min, Max int
	Must     string // what it may be, in words; empty: a whole number from Min to Max
	Type     string // the definition in the schema that says so; empty: the schema of the field does
}

func (f Number) read(n *decode.Node, r *decode.Reader) {
	if *f.To = r.Count(n); n == nil || *f.To < f.Min {
		*f.To = f.Default
	}
}

func (f Number) check() []decode.FieldError {
	if *f.To != 0 && (*f.To < f.Min || *f.To > f.Max) {
		return []decode.FieldError{{Must: f.must()}}
	}
	return nil
}

func (f Number) must() string {
	return cmp.Or(f.Must, fmt.Sprintf("a whole number from %d to %d", f.Min, f.Max))
}

func (f Number) value() int {
	if f.Min > 0 {
		return cmp.Or(*f.To, f.Default)
	}
	return *f.To
}

func (f Number) print() any { return f.value() }

func (f Number) expand(*expander, string) { *f.To = f.value() }

func (f Number) holds() any { return *f.To }

func (f Number) schema(int) []string {
	members := integer(f.must(), f.Min, f.Max)
	if f.Type != "" {
		members = []string{Ref(f.Type)}
	}
	if f.Default < f.Min {
		return members // 0 stands for none, and cannot be written
	}
	return append(members, member("default", f.Default))
}

func integer(must string, least, most int) []string {
	return []string{orVariable(member("$comment", must), `"type": "integer"`,
		member("minimum", least), member("maximum", most))}
}

// Optional is a whole number of a type that the schema defines. nil: it is left out, which is not 0.
type Optional struct {
	settled
	To   **int
	Type string
}

func (f Optional) read(n *decode.Node, r *decode.Reader) {
	if n != nil {
		number := r.Count(n)
		*f.To = &number
	}
}

func (f Optional) print() any {
	if *f.To == nil {
		return nil
	}
	return **f.To
}

func (f Optional) holds() any          { return *f.To }
func (f Optional) schema(int) []string { return []string{Ref(f.Type)} }

// Counter is a whole number from 0 of a type that the schema defines, up to 2^53. The default is 0.
type Counter struct {
	settled
	To   *int64
	Type string
}

func (f Counter) read(n *decode.Node, r *decode.Reader) { *f.To = r.Number(n) }
func (f Counter) print() any                            { return *f.To }
func (f Counter) holds() any                            { return *f.To }
func (f Counter) schema(int) []string                   { return []string{Ref(f.Type), member("default", 0)} }

// Numbers are a list of numbers from 0, each of which stands there once.
type Numbers struct{ To *[]int32 }

func (f Numbers) read(n *decode.Node, r *decode.Reader) {
	for _, item := range n.List() {
		*f.To = append(*f.To, int32(r.Number(item))) //nolint:gosec // G115: the schema has a maximum
	}
}

func (f Numbers) check() []decode.FieldError {
	var wrong []decode.FieldError
	for i, number := range *f.To {
		path := []string{strconv.Itoa(i)}
		switch {
		case number < 0:
			wrong = append(wrong, decode.FieldError{Path: path, Must: "a whole number from 0"})
		case slices.Contains((*f.To)[:i], number):
			message := fmt.Sprintf("is %d, which stands there twice", number)
			wrong = append(wrong, decode.FieldError{Path: path, Message: message})
		}
	}
	return wrong
}

func (f Numbers) print() any {
	if len(*f.To) == 0 {
		return nil
	}
	return *f.To
}

func (f Numbers) expand(*expander, string) {}
func (f Numbers) holds() any               { return *f.To }

func (f Numbers) schema(int) []string {
	return []string{
		`"$comment": "a list of whole numbers from 0"`, `"type": "array"`,
		`"items": ` + object(integer("a whole number from 0 to 2147483647", 0, math.MaxInt32)...),
	}
}

// Duration is a time of more than 0s. 0 stands for the default, unless it may itself be what is meant.
type Duration struct {
	To       *time.Duration
	Default  time.Duration
	Min, Max time.Duration // Max 0: any
	Zero     bool          // 0s may be meant
	Instead  string        // what to write for what 0s may have been meant to say, behind what is said of it
}

func (f Duration) read(n *decode.Node, r *decode.Reader) {
	if f.Zero {
		*f.To = r.Duration(n, f.Default)
		return
	}
	*f.To = r.Positive(n, f.Default, f.Instead)
}

func (f Duration) check() []decode.FieldError {
	switch is := *f.To; {
	case is == 0 || is >= f.Min && (is <= f.Max || f.Max == 0):
		return nil
	case f.Max == 0:
		return []decode.FieldError{{Must: "at least " + decode.Short(f.Min)}}
	}
	return []decode.FieldError{{Must: "from " + decode.Short(f.Min) + " to " + decode.Short(f.Max)}}
}

func (f Duration) value() time.Duration {
	if f.Zero {
		return *f.To
	}
	return cmp.Or(*f.To, f.Default)
}

func (f Duration) print() any { return decode.Short(f.value()) }

func (f Duration) expand(*expander, string) { *f.To = f.value() }

func (f Duration) holds() any { return *f.To }

func (f Duration) schema(int) []string {
	members := []string{Ref("duration")}
	if f.Default != 0 || f.Zero {
		members = append(members, member("default", decode.Short(f.Default)))
	}
	return members
}

// Truth is true or false; false where it is left out.
type Truth struct {
	settled
	To    *bool
	Named bool // the schema names its default
}

func (f Truth) read(n *decode.Node, r *decode.Reader) { *f.To = r.Truth(n) }
func (f Truth) print() any                            { return *f.To }
func (f Truth) holds() any                            { return *f.To }

func (f Truth) schema(int) []string {
	members := []string{Ref("bool")}
	if f.Named {
		members = append(members, member("default", false))
	}
	return members
}

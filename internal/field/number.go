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

func (f Number) schema() []string {
	return append(integer(f.must(), f.Min, f.Max), member("default", f.Default))
}

func integer(must string, least, most int) []string {
	return []string{orVariable(member("$comment", must), `"type": "integer"`,
		member("minimum", least), member("maximum", most))}
}

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

func (f Numbers) schema() []string {
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

func (f Duration) schema() []string {
	members := []string{`"$ref": "#/$defs/duration"`}
	if f.Default != 0 || f.Zero {
		members = append(members, member("default", decode.Short(f.Default)))
	}
	return members
}

// Truth is true or false.
type Truth struct{ To *bool }

func (f Truth) read(n *decode.Node, r *decode.Reader) { *f.To = r.Truth(n) }
func (f Truth) check() []decode.FieldError            { return nil }
func (f Truth) print() any                            { return *f.To }
func (f Truth) expand(*expander, string)              {}
func (f Truth) schema() []string                      { return []string{`"$ref": "#/$defs/bool"`} }

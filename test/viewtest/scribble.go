package viewtest

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// values are written anywhere in a document.
var values = []any{
	nil, true, -1, 0, 1, 1 << 31, 1 << 53, 1<<53 + 1, 1 << 62, 1<<63 - 1, -1 << 63, 1e308, 0.5, json.Number("1e999"), "",
	strings.Repeat("x", 5000), "\x00", "\xff", "../..", "a/b/c",
	[]any{},
	map[string]any{},
	[]any{[]any{}},
	make([]any, 50),
	map[string]any{"": map[string]any{}},
	"9999999999999", "\x1b[31m", "NaN",
}

// bodies are no objects.
var bodies = []string{
	"", "null", "[]", `"x"`, "{", strings.Repeat("{", 2000), "\xff\xfe", "1e999", strings.Repeat(`{"a":`, 5000),
}

// edit returns v with one change somewhere in it.
func edit(r *rand.Rand, v any) any {
	some := func() any { return values[r.IntN(len(values))] }
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 || r.IntN(8) == 0 {
			return some()
		}
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		name := names[r.IntN(len(names))]
		if r.IntN(10) == 0 {
			delete(v, name)
		} else {
			v[name] = edit(r, v[name])
		}
		return v
	case []any:
		switch {
		case len(v) == 0 || r.IntN(8) == 0:
			return some()
		case r.IntN(4) == 0:
			return append(slices.Concat(v, v), some())
		}
		i := r.IntN(len(v))
		v[i] = edit(r, v[i])
		return v
	default:
		return some()
	}
}

// ScribbleBody returns a body with one change somewhere in it; often it is no longer JSON.
func ScribbleBody(r *rand.Rand, body []byte) []byte {
	var v any
	if r.IntN(20) == 0 || json.Unmarshal(body, &v) != nil {
		return []byte(bodies[r.IntN(len(bodies))])
	}
	text, err := json.Marshal(edit(r, v))
	if err != nil {
		return []byte("{") // as 1e999 makes it
	}
	return text
}

// Scribble returns the document with another body or another column, as somebody with little care, or much malice,
// edits one by hand.
func Scribble(r *rand.Rand, d driver.Doc) driver.Doc {
	numbers := []int64{-1 << 63, -1, 0, 1, 1 << 53, 1<<53 + 1, 1<<63 - 1}
	texts := []string{"", "x", "a/b/c", "\x00", "\xff", strings.Repeat("y", 4000)}
	switch r.IntN(12) {
	case 0:
		d.Count = numbers[r.IntN(len(numbers))]
	case 1:
		d.Session = texts[r.IntN(len(texts))]
	case 2:
		d.Next = texts[r.IntN(len(texts))]
	case 3:
		d.State = texts[r.IntN(len(texts))]
	case 4:
		d.Expires = numbers[r.IntN(len(numbers))]
	default:
		d.Body = ScribbleBody(r, d.Body)
	}
	return d
}

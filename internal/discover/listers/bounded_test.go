package listers

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/discover"
)

// endless repeats a text after its beginning, and counts what is read of it.
type endless struct {
	begin, again string
	read         int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		if at := e.read + i; at < len(e.begin) {
			p[i] = e.begin[at]
		} else {
			p[i] = e.again[(at-len(e.begin))%len(e.again)]
		}
	}
	e.read += len(p)
	return len(p), nil
}

type form struct {
	name string
	read func(io.Reader) ([]discover.Found, error)
}

var forms = []form{{"JSON", readJSON}, {"YAML", readYAML}, {"lines", readLines}}

// Every form is read no further than to the limit that is reached first, whatever it is flooded with.
func TestEndlessLists(t *testing.T) {
	for _, c := range []struct {
		form         string
		begin, again string
		want         string
		most         int // bytes that may be read
	}{
		{"JSON", `[""`, `,""`, "has more than 100000 entries", 4 * discover.MaxFound},
		{"JSON", `[{}`, `,{}`, "has more than 100000 entries", 4 * discover.MaxFound},
		{"JSON", `["`, `a`, "has an entry of more than 16 KiB", 3 * maxEntry},
		{"JSON", `[`, ` `, "has an entry of more than 16 KiB", 3 * maxEntry},
		{"JSON", ``, ` `, "has an entry of more than 16 KiB", 3 * maxEntry},
		{"JSON", `[]`, ` `, "has an entry of more than 16 KiB", 3 * maxEntry},
		{"JSON", `["a", `, `[`, "exceeded max depth", 3 * maxEntry},
		{"JSON", `["a", {"labels":{"a":""`, `,"a":""`, "has an entry of more than 16 KiB", 3 * maxEntry},
		{"JSON", `["a"`, ",\n" + strings.Repeat(" ", 10_000) + `"a"`, "is larger than 16 MiB", maxSize + 1<<16},
		{"YAML", "", "- a\n", "is larger than 2 MiB", maxYAML + 1<<20},
		{"YAML", "- ", "a", "is larger than 2 MiB", maxYAML + 1<<20},
		{"lines", "", "a\n", "has more than 100000 entries", 4 * discover.MaxFound},
		{"lines", "", "a", "has a line of more than 16 KiB", 3 * maxEntry},
		{"lines", "", "# a\n", "is larger than 16 MiB", maxSize + 1<<16},
		{"lines", "", "\n", "is larger than 16 MiB", maxSize + 1<<16},
	} {
		for _, f := range forms {
			if f.name != c.form {
				continue
			}
			text := &endless{begin: c.begin, again: c.again}
			found, err := f.read(text)
			if err == nil || !strings.Contains(err.Error(), c.want) || found != nil {
				t.Errorf("%s %q %.20q…: %d found, %v; want %s", c.form, c.begin, c.again, len(found), err, c.want)
			}
			if text.read > c.most {
				t.Errorf("%s %q %.20q…: %d bytes were read, want at most %d", c.form, c.begin, c.again, text.read, c.most)
			}
		}
	}
}

// A list as large as is allowed is read.
func TestTheLargestLists(t *testing.T) {
	name := strings.Repeat("a", maxEntry-4) // with the quotes, and a comma on either side
	for text, want := range map[string]int{
		"[" + strings.Repeat(`"a",`, discover.MaxFound-1) + `"a"]`: discover.MaxFound,
		`["b","` + name + `","c"]`:                                 3,
	} {
		if found, err := readJSON(strings.NewReader(text)); err != nil || len(found) != want {
			t.Errorf("%d of %d, %v", len(found), want, err)
		}
	}
	lines := strings.Repeat("a\n", discover.MaxFound)
	if found, err := readLines(strings.NewReader(lines)); err != nil || len(found) != discover.MaxFound {
		t.Errorf("%d lines, %v", len(found), err)
	}
	labels := `[{"name": "a", "labels": {` + strings.Repeat(`"a": "", `, discover.MaxLabels) + `"b": ""}}]`
	if found, err := readJSON(strings.NewReader(labels)); err != nil || len(found[0].Labels) != 2 {
		t.Errorf("the same label again and again: %v, %v", found, err)
	}
}

// An editor on Windows writes a mark of byte order at the beginning, and may write UTF-16. It is part of no name.
func TestMarksOfByteOrder(t *testing.T) {
	texts := map[string]string{"JSON": `["orders", "größe"]`, "YAML": "- orders\n- größe\n", "lines": "orders\r\ngröße\r\n"}
	for _, f := range forms {
		text := texts[f.name]
		var little, big strings.Builder
		for _, c := range "\uFEFF" + text {
			little.Write([]byte{byte(c), byte(c >> 8)})
			big.Write([]byte{byte(c >> 8), byte(c)})
		}
		for what, text := range map[string]string{
			"none": text, "UTF-8": "\uFEFF" + text, "UTF-16 LE": little.String(), "UTF-16 BE": big.String(),
		} {
			found, err := f.read(strings.NewReader(text))
			if err != nil || len(found) != 2 || found[0].Name != "orders" || found[1].Name != "größe" {
				t.Errorf("%s, %s: %q, %v", f.name, what, found, err)
			}
		}
	}
}

// What a text cannot be read for is said as it is.
func TestTextsThatCannotBeRead(t *testing.T) {
	broken := errors.New("no more")
	for _, f := range forms {
		text := io.MultiReader(strings.NewReader("[\n"), errReader{broken})
		if found, err := f.read(text); !errors.Is(err, broken) || errors.Is(err, errNoList) || found != nil {
			t.Errorf("%s: %v, %v", f.name, found, err)
		}
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

package field_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
)

// all has a field of each kind.
type all struct {
	name, mode, password string
	servers, patterns    []string
	count                int
	numbers              []int32
	pause                time.Duration
	on                   bool
	file                 string
	off                  bool
}

func (a *all) fields() field.List {
	return field.List{
		{Name: "name", Value: field.Text{
			To: &a.name, Required: "is required", Valid: func(s string) bool { return s != "bad" }, Must: "good",
		}, Doc: "A name."},
		{Name: "mode", Value: field.Text{To: &a.mode, Default: "slow", OneOf: []string{"slow", "fast", "idle"}}},
		{Name: "password", Value: field.Text{To: &a.password, Secret: true}, Unset: "none"},
		{Name: "servers", Value: field.Texts{
			To: &a.servers, Required: "is required", Form: "HOST", Valid: func(s string) bool { return s != "bad" },
			Message: "must be HOST",
		}},
		{Name: "patterns", Value: field.Patterns{To: &a.patterns}},
		{Name: "count", Value: field.Number{To: &a.count, Default: 7, Min: 1, Max: 9}},
		{Name: "numbers", Value: field.Numbers{To: &a.numbers}},
		{Name: "pause", Value: field.Duration{To: &a.pause, Default: time.Minute, Min: time.Second, Max: time.Hour}},
		{Name: "on", Value: field.Truth{To: &a.on}},
		{Name: "tls", Value: field.Mapping{Off: a.off, Fields: field.List{
			{Name: "file", Value: field.Text{To: &a.file}},
		}}},
	}
}

func TestCheck(t *testing.T) {
	for want, a := range map[string]all{
		"[]": {name: "a", servers: []string{"a,b", "$(X)"}},
		"[name: is required servers: is required]":                   {},
		"[name: must be good servers: must be HOST]":                 {name: "bad", servers: []string{"a,bad"}},
		"[mode: must be slow, fast or idle servers.1: must be HOST]": {name: "$(X)", mode: "x", servers: []string{"a", ","}},
		"[count: must be a whole number from 1 to 9 pause: must be from 1s to 1h]": {
			name: "a", servers: []string{"a"}, count: 10, pause: time.Millisecond,
		},
		"[numbers.0: must be a whole number from 0 numbers.2: is 3, which stands there twice]": {
			name: "a", servers: []string{"a"}, numbers: []int32{-1, 3, 3},
		},
	} {
		if got := fmt.Sprint(a.fields().Check()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestPrint(t *testing.T) {
	for password, shown := range map[string]string{
		"": "", "s3cret": " {password xxxxx}", "$(PASSWORD)": " {password $(PASSWORD)}",
		"s3cret$(PASSWORD)": " {password xxxxx}",
	} {
		a := all{
			name: "http://u:s3cret@a", password: password, servers: []string{"u:s3cret@a:1", "x://u:s3cret@b"}, file: "f",
		}
		got := fmt.Sprint(a.fields().Print())
		want := "[{name http://u:xxxxx@a} {mode slow}" + shown + " {servers [u:xxxxx@a:1 x://u:xxxxx@b]} {patterns []} " +
			"{count 7} {pause 1m} {on false} {tls [{file f}]}]"
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := fmt.Sprint((&all{off: true}).fields().Print()); strings.Contains(got, "tls") {
		t.Errorf("what is off is printed: %s", got)
	}
}

func expand(field, text string) (string, error) {
	if strings.Contains(text, "$(NONE)") {
		return "", errors.New(field + ": $(NONE) is not set")
	}
	return strings.NewReplacer("$(X)", "x", "$(BAD)", "bad").Replace(text), nil
}

func TestExpand(t *testing.T) {
	a := all{name: "$(X)", servers: []string{"a, $(X)", "a,,b"}, file: "$(X)/f"}
	err := a.fields().Expand("kind", expand)
	if err != nil || a.name != "x" || a.mode != "slow" || a.count != 7 || a.pause != time.Minute || a.file != "x/f" ||
		!slices.Equal(a.servers, []string{"a", "x", "b"}) {
		t.Errorf("got %+v, %v", a, err)
	}
	for want, a := range map[string]all{
		"kind.servers[1]: $(NONE) is not set; kind.tls.file: $(NONE) is not set": {
			name: "a", servers: []string{"a", "$(NONE)"}, file: "$(NONE)",
		},
		"kind.name: what u:xxxxx@$(BAD) holds is not allowed, must be good": {
			name: "u:s3cret@$(BAD)", servers: []string{"a"},
		},
		"kind.name: what $(BAD) holds is not allowed, must be good; kind.servers: must be HOST": {
			name: "$(BAD)", servers: []string{"$(BAD)"},
		},
	} {
		fields := a.fields()
		if strings.HasPrefix(a.name, "u:") {
			fields[0].Value = field.Text{To: &a.name, Valid: func(string) bool { return false }, Must: "good"}
		}
		if err := fields.Expand("kind", expand); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// What the schema says of a field is what its declaration says.
func TestSchema(t *testing.T) {
	text := new(all).fields().Schema("About <it>.")
	var schema struct {
		Description string
		Comment     string `json:"$comment"`
		Properties  map[string]map[string]any
	}
	if err := json.Unmarshal([]byte(text), &schema); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if schema.Description != "About <it>." || len(schema.Properties) != 10 ||
		schema.Comment != "a mapping with name, mode, password, servers, patterns, count, numbers, pause, on, tls" {
		t.Errorf("got %s", text)
	}
	for name, want := range map[string]string{
		"name": "map[$ref:#/$defs/text description:A name. Required.]",
		"mode": "map[anyOf:[map[$comment:slow, fast or idle enum:[slow fast idle] type:string] " +
			"map[$ref:#/$defs/variable]] default:slow]",
		"password": "map[$ref:#/$defs/text description:Default: none.]",
		"count": "map[anyOf:[map[$comment:a whole number from 1 to 9 maximum:9 minimum:1 type:integer] " +
			"map[$ref:#/$defs/variable]] default:7]",
		"pause": "map[$ref:#/$defs/duration default:1m]",
	} {
		if got := fmt.Sprint(schema.Properties[name]); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// What is left out gets its default, also where the variable held something.
func TestParseOfNothing(t *testing.T) {
	a := all{mode: "fast", count: 3}
	a.fields().Parse(nil, &decode.Reader{})
	if a.mode != "slow" || a.count != 7 || a.pause != time.Minute || a.on {
		t.Errorf("got %+v", a)
	}
}

// final has a field of each kind that is final once it is read.
type final struct {
	name    string
	words   []string
	limit   *int
	changes int64
	section string
}

func (f *final) fields() field.List {
	return field.List{
		{Name: "name", Value: field.Literal{To: &f.name, Default: "a", Type: "dnsName"}, Shown: true},
		{Name: "words", Value: field.Literals{To: &f.words, Min: 1}},
		{Name: "limit", Value: field.Optional{To: &f.limit, Type: "count"}},
		{Name: "changes", Value: field.Counter{To: &f.changes, Type: "revision"}, Live: true},
		{Name: "section", Value: field.Mapping{Sorted: true, Fields: field.List{
			{Name: "text", Value: field.Literal{To: &f.section}, Doc: "A text.", Unset: "the machine's"},
		}}},
	}
}

func TestFinalFields(t *testing.T) {
	var f final
	f.fields().Parse(nil, &decode.Reader{})
	if got := fmt.Sprint(f.fields().Print()); got != "[{name a} {words []} {changes 0} {section [{text }]}]" {
		t.Errorf("printed %s", got)
	}
	if got := fmt.Sprint(f.fields().Shown()); got != "map[name:a]" {
		t.Errorf("shown %s", got)
	}
	want := []string{
		`"name": {"$ref": "#/$defs/dnsName", "default": "a"}`,
		`"words": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/text"}}`,
		`"limit": {"$ref": "#/$defs/count"}`,
		`"changes": {"$ref": "#/$defs/revision", "default": 0}`,
	}
	if got := f.fields().Properties(); !slices.Equal(got[:4], want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	section := "{\n      \"description\": \"A text. Default: the machine's.\",\n      \"$ref\": \"#/$defs/text\"\n    }"
	if got := f.fields().Blocks()[4]; !strings.Contains(got, section) || strings.Contains(got, "$comment") {
		t.Errorf("got %s", got)
	}
}

func TestChangedFields(t *testing.T) {
	limit := 0
	before := final{words: []string{"run", "--token", "one"}}
	after := final{words: []string{"run", "--token", "two"}, limit: &limit, changes: 1, section: "x"}
	if got := after.fields().Changed(before.fields()); !slices.Equal(got, []string{"words", "limit", "section.text"}) {
		t.Errorf("got %v", got)
	}
	if got := before.fields().Changed(before.fields()); got != nil {
		t.Errorf("without a change: %v", got)
	}
}

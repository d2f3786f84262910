package variables_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/variables"
)

func TestExpand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("s3cret\r\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{"A": "one", "B_2": "$(A)", "EMPTY": "", "file": "var"}
	lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	for _, c := range []struct{ text, want, err string }{
		{text: "", want: ""},
		{text: "plain $HOME ${A} $ $$ $A", want: "plain $HOME ${A} $ $$ $A"},
		{text: "$(A)", want: "one"},
		{text: "x$(A)y$(A)z", want: "xoney" + "onez"},
		{text: "$(B_2)", want: "$(A)"}, // once: what comes in is not looked at again
		{text: "$(EMPTY)", want: ""},
		{text: "$(EMPTY:-d)", want: ""},
		{text: "$(NO:-d e)f", want: "d ef"},
		{text: "$(NO:-)", want: ""},
		{text: "$(NO:-$(A))", want: "$(A)"}, // up to the next ")": the rest stays
		{text: "$$(A)", want: "$(A)"},
		{text: "$$$(A)", want: "$$(A)"},
		{text: "$$(A) $(A)", want: "$(A) one"},
		{text: "x $(A", err: "$(A has no ) after it"},
		{text: "$(A:-b", err: "$(A:-b has no ) after it"},
		{text: "$(file:/x", err: "$(file:/x has no ) after it"},
		{text: "$$(A", want: "$(A"},
		{text: "$( $(1 $(A B", want: "$( $(1 $(A B"},
		{text: "$(1A) $(A B) $() $(A:b)", want: "$(1A) $(A B) $() $(A:b)"},
		{text: "[$(file:" + file + ")]", want: "[s3cret]"},
		{text: "$(file:-d)", want: "var"},
		{text: "$(file)", want: "var"},
		{text: "$(file:)", want: "$(file:)"},
		{text: "$(file:" + file + ".no)", err: "no such file"},
		{text: "a $(NO) b", err: "$(NO) is not set"},
	} {
		got, err := variables.Expand(c.text, lookup)
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("Expand(%q): error %v, want one with %q", c.text, err, c.err)
		case c.err == "" && err != nil:
			t.Errorf("Expand(%q): %v", c.text, err)
		case got != c.want:
			t.Errorf("Expand(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

func TestExpandRefusesLargeFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(file, make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := variables.Expand("$(file:"+file+")", nil)
	if err == nil || !strings.Contains(err.Error(), "at most") {
		t.Fatalf("error %v, want the limit", err)
	}
}

// FuzzExpand: what stands in $( ) is replaced once, and errors name a variable and no value. Any text can be written so
// that it comes out as it is.
func FuzzExpand(f *testing.F) {
	for _, text := range []string{
		"", "plain $HOME ${A} $ $$ $A", "$(A)", "x$(A)y$(B)z", "$(B:-d)", "$(NO:-)", "$(NO:-$(A))", "$$(A)", "$$$(A)",
		"$(A", "$(1A) $() $(A:b)", "$(NO)", "$(A))$(", "$(A$(B))",
	} {
		f.Add(text, "one")
		f.Add(text, "$(A)")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		if strings.Contains(text, "file:") {
			t.Skip("would read files of this machine")
		}
		lookup := func(name string) (string, bool) { return value, name == "A" }
		got, err := variables.Expand(text, lookup)
		switch {
		case err != nil:
			if !strings.Contains(err.Error(), "$(") || !strings.Contains(err.Error(), "not set") &&
				!strings.Contains(err.Error(), "has no )") {
				t.Errorf("%q: %v", text, err)
			}
		case !strings.Contains(text, "$(") && got != text:
			t.Errorf("%q became %q", text, got)
		}
		plain, err := variables.Expand(strings.ReplaceAll(text, "$(", "$$("), lookup)
		if err != nil || plain != text {
			t.Errorf("%q, written plain, became %q, %v", text, plain, err)
		}
	})
}

func ExampleExpand() {
	vars := map[string]string{"TOPIC": "orders"}
	lookup := func(name string) (string, bool) { value, ok := vars[name]; return value, ok }
	for _, text := range []string{"--topic=$(TOPIC)", "$(LEVEL:-info)", "$$(date)", "$(LEVEL)"} {
		value, err := variables.Expand(text, lookup)
		fmt.Println(value, err)
	}
	// Output:
	// --topic=orders <nil>
	// info <nil>
	// $(date) <nil>
	//  $(LEVEL) is not set and has no default
}

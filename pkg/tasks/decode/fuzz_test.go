package decode_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

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
		got, err := decode.Expand(text, lookup)
		switch {
		case err != nil:
			if !strings.Contains(err.Error(), "$(") || !strings.Contains(err.Error(), "not set") &&
				!strings.Contains(err.Error(), "has no )") {
				t.Errorf("%q: %v", text, err)
			}
		case !strings.Contains(text, "$(") && got != text:
			t.Errorf("%q became %q", text, got)
		}
		plain, err := decode.Expand(strings.ReplaceAll(text, "$(", "$$("), lookup)
		if err != nil || plain != text {
			t.Errorf("%q, written plain, became %q, %v", text, plain, err)
		}
	})
}

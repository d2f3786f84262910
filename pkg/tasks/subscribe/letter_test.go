package subscribe_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// A broker takes no header of any length, and none that is half a character.
func TestErrorOfADeadLetterIsClipped(t *testing.T) {
	for name, test := range map[string]struct{ is, want string }{
		"short":     {"no such customer", "no such customer"},
		"all of it": {strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		"long":      {strings.Repeat("x", 1025), strings.Repeat("x", 1021) + "…"},
		"wide":      {"x" + strings.Repeat("ä", 600), "x" + strings.Repeat("ä", 510) + "…"},
		"wider":     {strings.Repeat("€", 400), strings.Repeat("€", 340) + "…"},
		"no text":   {"a\xffb", "a\uFFFDb"},
	} {
		got := subscribe.Why{Err: errors.New(test.is)}.Headers()["Shardctl-Dead-Error"]
		if got != test.want || len(got) > 1024 || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes %q, want %q", name, len(got), got, test.want)
		}
	}
}

package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Why is the reason of a decision: one word, and a sentence for people.
type Why struct {
	Reason  elect.Reason
	Message string // at most elect.MaxText bytes
}

func whyOf(reason elect.Reason, format string, args ...any) Why {
	return Why{Reason: reason, Message: clip(fmt.Sprintf(format, args...))}
}

// clip cuts a text to what a lock holds, between two letters.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= elect.MaxText {
		return text
	}
	end := elect.MaxText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// labelWords returns labels as a selector is written: a=b,c=d.
func labelWords(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, ",")
}

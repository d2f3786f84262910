package pageblock

import "strings"

// Words splits a command as a shell does, without replacing anything. Operators are words of their own, comments are
// left out.
func Words(text string) []string {
	var all []string
	var word strings.Builder
	begun, quote := false, rune(0)
	end := func() {
		if begun {
			all = append(all, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			end()
		case r == '#' && !begun:
			return all
		case strings.ContainsRune("|;&", r):
			end()
			all = append(all, string(r))
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	end()
	return all
}

package cli

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// No character that a terminal obeys is left, and all others are as they were. Unicode's own tables say which.
func TestEveryCharacter(t *testing.T) {
	obeyed := func(r rune) bool {
		return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		line, text := "a"+string(r)+"b", "a"+string(r)+"b"
		if obeyed(r) {
			line, text = "a b", "a b"
		}
		if r == '\t' || r == '\n' {
			text = "a" + string(r) + "b"
		}
		in := "a" + string(r) + "b"
		if got := Printable(in); got != line {
			t.Errorf("Line of %U: %q, want %q", r, got, line)
		}
		if got := printableText(in); got != text {
			t.Errorf("Text of %U: %q, want %q", r, got, text)
		}
	}
}

// Sequences lose what makes them sequences, also the byte 0x9b, which begins one on terminals of eight bits.
func TestSequences(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b]0;title\x07x": " ]0;title x", "\x1b[31mred": " [31mred", "\u009b31mred": " 31mred", "a\x9b31m": "a\ufffd31m",
		"a\r\nb\n": "a\nb\n", "100%\rfake": "100% fake", "ok\u202eko": "ok ko", "Grüße 世界 👋\tx\n": "Grüße 世界 👋\tx\n",
	} {
		if got := printableText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A writer cleans as Text does, wherever the text is cut.
func TestWriter(t *testing.T) {
	const text = "a\r\nb\u202ec\u009bd 世界 👋\x1b[31m\n"
	for size := 1; size <= len(text); size++ {
		var b strings.Builder
		w := newPrintableWriter(&b)
		for at := 0; at < len(text); at += size {
			part := text[at:min(at+size, len(text))]
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatalf("wrote %d of %d bytes, %v", n, len(part), err)
			}
		}
		if got, want := b.String(), printableText(text); got != want {
			t.Errorf("parts of %d bytes: %q, want %q", size, got, want)
		}
	}
}

package cli

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Texts of others are cleaned for a terminal. Their control characters and sequences would move the cursor, change the
// title or colours, or have a text read otherwise than it is. Only what is shown is cleaned, where it is written. What
// is stored, compared or sent stays as it is, and so does output into a file or a pipe, whose readers may depend on
// each byte.

// Printable returns a text of others in one line, without tabs, and cleaned for a terminal.
func Printable(text string) string { return strings.Map(printableRune, text) }

// printableText is text with a space for each character that a terminal obeys: controls of C0 and C1, ESC and DEL among
// them, those that change the direction of writing, and separators of lines and paragraphs. Tabs and ends of lines
// stay; that of two characters becomes one. Bytes that are no UTF-8 become U+FFFD.
func printableText(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' {
			return r
		}
		return printableRune(r)
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// printableRune is what stands for a character.
func printableRune(r rune) rune {
	switch {
	case r < ' ', r >= 0x7f && r < 0xa0, r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e,
		r >= 0x2066 && r <= 0x2069:
		return ' '
	}
	return r
}

// newPrintableWriter makes a writer that writes [printableText] to w. A character that is split between two calls of
// Write is kept back until it is whole. It is used by one goroutine at a time.
func newPrintableWriter(w io.Writer) io.Writer { return &printableWriter{to: w} }

type printableWriter struct {
	to   io.Writer
	rest []byte // the beginning of a character, or a carriage return: a line may end with it
}

// Write implements [io.Writer].
func (w *printableWriter) Write(p []byte) (int, error) {
	all := slices.Concat(w.rest, p)
	whole := len(all) - unfinished(all)
	w.rest = all[whole:]
	if _, err := io.WriteString(w.to, printableText(string(all[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// unfinished is how many bytes at the end are the beginning of something.
func unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if at := p[len(p)-n:]; utf8.RuneStart(at[0]) {
			if !utf8.FullRune(at) || n == 1 && at[0] == '\r' {
				return n
			}
			return 0
		}
	}
	return 0
}

package dev

import (
	"strings"
	"unicode/utf8"
)

// style is how a piece of text is shown, as the number of the ANSI attribute.
type style string

const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// span is text of one style; every character of it is one column wide.
type span struct {
	style style
	text  string
}

type line []span

// paint writes the line, at most width columns of it.
func (l line) paint(b *strings.Builder, width int, colour bool) {
	for _, s := range l {
		text := clip(s.text, width)
		width -= utf8.RuneCountInString(text)
		if text == "" {
			continue
		}
		if !colour || s.style == plain {
			b.WriteString(text)
			continue
		}
		b.WriteString("\x1b[" + string(s.style) + "m" + text + "\x1b[0m")
	}
}

// clip cuts a text to so many columns; what was cut shows as an ellipsis.
func clip(text string, width int) string {
	switch {
	case utf8.RuneCountInString(text) <= width:
		return text
	case width <= 0:
		return ""
	}
	return string([]rune(text)[:width-1]) + "…"
}

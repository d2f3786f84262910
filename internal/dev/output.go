package dev

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// output is where changes are reported: a terminal or lines.
type output interface {
	show(s *screen, reported []event)
	close()
}

// printer prints each change as a line with its time.
type printer struct{ to io.Writer }

func (p printer) show(_ *screen, reported []event) {
	for _, e := range reported {
		_, _ = fmt.Fprintf(p.to, "%s %s\n", e.at.Format(time.TimeOnly), e.text) // there is nowhere else to report it
	}
}

func (printer) close() {}

// raw is a terminal without echo and line editing, on its other screen, so that what was there comes back.
type raw struct {
	t      *Terminal
	before *term.State
	colour bool
	drawn  string
}

const (
	enter   = "\x1b[?1049h\x1b[?25l\x1b[2J" // the other screen, no cursor, empty
	leave   = "\x1b[0m\x1b[?25h\x1b[?1049l"
	home    = "\x1b[H"
	endLine = "\x1b[K\r\n" // raw mode ends a line with both
	endAll  = "\x1b[K\x1b[J"
)

func newRaw(t *Terminal) (*raw, error) {
	before, err := term.MakeRaw(int(t.In.Fd()))
	if err != nil {
		return nil, fmt.Errorf("read single keys: %w", err)
	}
	r := &raw{t: t, before: before, colour: os.Getenv("NO_COLOR") == ""}
	r.write(enter)
	return r, nil
}

func (r *raw) show(s *screen, _ []event) {
	width, height, err := term.GetSize(int(r.t.Out.Fd()))
	if err != nil || width < 1 || height < 1 {
		width, height = 80, 24
	}
	text := s.render(size{width, height}, r.colour)
	if text = home + strings.ReplaceAll(text, "\n", endLine) + endAll; text != r.drawn {
		r.write(text)
		r.drawn = text
	}
}

// close gives the terminal back as it was. It may be called twice.
func (r *raw) close() {
	if r.before == nil {
		return
	}
	r.write(leave)
	_ = term.Restore(int(r.t.In.Fd()), r.before) // the terminal is gone, or it works
	r.before = nil
}

func (r *raw) write(s string) { _, _ = r.t.Out.WriteString(s) } // a terminal that is gone sends SIGHUP

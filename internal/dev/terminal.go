package dev

import (
	"fmt"
	"io"
	"time"

	"golang.org/x/term"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/printable"
)

// action is what a key asks for.
type action int

const (
	nothing action = iota
	killReplica
	killWorker
	stopReplica
	addReplica
	quit
)

// Bytes that a terminal in raw mode sends for keys.
const (
	ctrlC    = 0x03
	ctrlD    = 0x04
	ctrlQuit = 0x1c // Ctrl-\
	escape   = 0x1b
)

// keys understands what is typed. The zero value is ready.
type keys struct {
	number int // typed so far; 0: none
	escape int // 1: after an escape, 2: within a sequence
}

// press takes one byte. With an action comes the number typed before it, 0 for none.
func (k *keys) press(b byte) (a action, number int) {
	if k.inSequence(b) {
		return nothing, 0
	}
	switch {
	case b >= '0' && b <= '9':
		if n := k.number*10 + int(b-'0'); n <= 999 {
			k.number = n
		}
		return nothing, 0
	case b == escape:
		k.escape = 1
	case b == 'k' || b == 'K':
		a = killReplica
	case b == 'w' || b == 'W':
		a = killWorker
	case b == 's' || b == 'S':
		a = stopReplica
	case b == 'a' || b == 'A':
		a = addReplica
	case b == 'q' || b == 'Q' || b == ctrlC || b == ctrlD || b == ctrlQuit:
		a = quit
	}
	number, k.number = k.number, 0
	return a, number
}

// inSequence swallows what arrows and function keys send: an escape, [ or O, and all up to a final letter or ~.
func (k *keys) inSequence(b byte) bool {
	switch {
	case k.escape == 0:
		return false
	case k.escape == 1 && (b == '[' || b == 'O'):
		k.escape = 2
		return true
	case k.escape == 1: // the key escape by itself, and now another one
		k.escape = 0
		return false
	}
	if b >= 0x40 && b <= 0x7e {
		k.escape = 0
	}
	return true
}

// target is the replica that a key acts on. It is that of the number, else the one with the highest number that is not
// about to go. It is "" when there is none.
func target(v *View, number int) string {
	name := ""
	for i, r := range v.Replicas {
		switch {
		case number != 0:
			if i+1 == number {
				return r.Name
			}
		case r.State == Live || r.State == Starting:
			name = r.Name
		case name == "" && !r.State.Gone():
			name = r.Name
		}
	}
	return name
}

// output is where changes are reported: a terminal or lines.
type output interface {
	show(s *screen, reported []event)
}

// printer prints each change as a line with its time.
type printer struct{ to io.Writer }

func (p printer) show(_ *screen, reported []event) {
	for _, e := range reported {
		_, _ = fmt.Fprintf(p.to, "%s %s\n", e.at.Format(time.TimeOnly), printable.Line(e.text)) // there is nowhere else to report it
	}
}

// raw is a terminal without echo and line editing.
type raw struct {
	t      *Terminal
	before *term.State
	screen *cli.Screen
}

func newRaw(t *Terminal) (*raw, error) {
	before, err := term.MakeRaw(int(t.In.Fd()))
	if err != nil {
		return nil, fmt.Errorf("read single keys: %w", err)
	}
	return &raw{t, before, cli.OpenScreen(t.Out)}, nil
}

func (r *raw) show(s *screen, _ []event) {
	v := new(cli.Globals).View(r.t.Out)
	if v.Width < 1 || v.Height < 1 {
		v.Width, v.Height = 80, 24
	}
	_ = r.screen.Draw(s.render(v)) // a terminal that is gone sends SIGHUP
}

func (r *raw) close() {
	r.screen.Close()
	_ = term.Restore(int(r.t.In.Fd()), r.before) // the terminal is gone, or it works
}

package dev

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// size is that of the terminal, in columns and rows.
type size struct{ width, height int }

// event is something that was reported.
type event struct {
	at   time.Time
	text string
}

// screen is all that is drawn.
type screen struct {
	view   *View
	events []event // oldest first
	typed  int     // the number typed so far
}

const (
	minBar, maxBar = 10, 40
	fewEvents      = 3 // are kept on the screen however many replicas there are
	maxProblems    = 3
)

// render draws the screen: exactly one text for it, lines ended by a line feed, none wider or more than fit.
func (s *screen) render(at size, colour bool) string {
	head, foot := s.head(), s.foot()
	troubles := s.troubles(min(maxProblems, (at.height-len(head)-len(foot))/4))
	// What is left after the fixed lines goes to the replicas first, but for a few events; the rest to events.
	free := at.height - len(head) - len(foot) - len(troubles)
	rows := s.rows(at, max(2, free-fewEvents-2))
	events := s.last(free - len(rows))

	var b strings.Builder
	all := append(append(append(append(head, rows...), troubles...), events...), foot...)
	for i, l := range all {
		if i >= at.height {
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		l.paint(&b, at.width, colour)
	}
	return b.String()
}

func (s *screen) head() []line {
	v := s.view
	running := v.Running()
	how := green
	if running < v.Options.Tasks {
		how = yellow
	}
	living := 0
	for _, r := range v.Replicas {
		if !r.State.Gone() {
			living++
		}
	}
	title := line{
		{bold, "shardctl dev"}, {plain, "   "}, {how, fmt.Sprintf("%d of %s running", running, tasks(v.Options.Tasks))},
	}
	title = append(
		title, span{plain, fmt.Sprintf(" on %s, cap %d   ", plural(living, "replica"), v.Options.Cap)},
		span{cyan, v.URL},
	)
	return []line{title, {}}
}

// rows are the table, at most so many lines.
func (s *screen) rows(at size, limit int) []line {
	rows := []line{{{faint, fmt.Sprintf(" %-7s  %-8s  %7s  %7s  %5s", "REPLICA", "STATE", "GUARD", "WORKER", "TASKS")}}}
	shown := chosen(s.view.Replicas, limit-1)
	for _, r := range shown {
		owned, running := s.view.Owned(r.Name)
		rows = append(rows, s.row(r, owned, running, at.width))
	}
	if hidden := len(s.view.Replicas) - len(shown); hidden > 0 {
		rows = append(rows, line{{faint, fmt.Sprintf(" and %d more", hidden)}})
	}
	return rows
}

// chosen are the replicas to show on so many lines: when not all of them fit, one line less, for the number of the
// others. Those that run come before those that ended, of which the newest are kept.
func chosen(all []Replica, lines int) []Replica {
	if len(all) <= lines {
		return all
	}
	hide := len(all) - max(0, lines-1)
	shown := slices.DeleteFunc(slices.Clone(all), func(r Replica) bool {
		if r.State.Gone() && hide > 0 {
			hide--
			return true
		}
		return false
	})
	return shown[:len(shown)-hide]
}

func (s *screen) row(r Replica, owned, running, width int) line {
	worker := "?"
	if r.Worker != 0 {
		worker = fmt.Sprint(r.Worker)
	}
	l := line{
		{bold, fmt.Sprintf(" %-7s", r.Name)},
		{stateStyle(r.State), fmt.Sprintf("  %-8s", r.State)},
		{plain, fmt.Sprintf("  %7d  %7s", r.Guard, worker)},
	}
	if r.State.Gone() {
		l[0].style = faint
		l[2] = span{faint, fmt.Sprintf("  %7s  %7s", "-", "-")}
		if owned == 0 {
			return append(l, span{faint, fmt.Sprintf("  %5s  %s", "-", r.Why)})
		}
		running = 0 // whatever the store still says
	}
	return append(
		append(l, span{plain, fmt.Sprintf("  %5d  ", owned)}),
		bar(owned, running, s.view.Options.Cap, width-len(" REPLICA  STATE     GUARD    WORKER  TASKS  ")-6)...,
	)
}

// bar shows what runs, what is owned and does not run, and free capacity: one column a task where the cap is small
// enough.
func bar(owned, running, limit, free int) line {
	width := min(max(minBar, free), maxBar, limit)
	at := func(n int) int { return min((n*width+limit-1)/limit, width) }
	full, part := at(running), at(owned)
	return line{
		{green, strings.Repeat("█", full)},
		{yellow, strings.Repeat("▒", max(0, part-full))},
		{faint, strings.Repeat("·", width-max(full, part))},
	}
}

func stateStyle(s State) style {
	switch s {
	case Live:
		return green
	case Starting, Leaving, Silent:
		return yellow
	case Dead:
		return red
	case Left:
		return faint
	}
	return plain
}

// troubles are at most so many problems, and what hinders the looking.
func (s *screen) troubles(limit int) []line {
	v := s.view
	var lines []line
	if v.Stale != "" {
		text := " " + v.Stale
		if v.Seen {
			text += "; shown is how it was last"
		}
		lines = append(lines, line{{yellow, text}})
	}
	for i, p := range v.Problems {
		if i == limit {
			lines = append(lines, line{{red, fmt.Sprintf(" and %s", plural(len(v.Problems)-i, "more problem"))}})
			break
		}
		lines = append(lines, line{{red, " " + p.Reason}, {plain, strings.TrimPrefix(p.String(), p.Reason)}})
	}
	if len(lines) == 0 {
		return nil
	}
	return append([]line{{}}, lines...)
}

// last are the newest events, at most so many lines with the empty one before them.
func (s *screen) last(limit int) []line {
	n := min(limit-1, len(s.events))
	if n <= 0 {
		return nil
	}
	lines := []line{{}}
	for _, e := range s.events[len(s.events)-n:] {
		lines = append(lines, line{{faint, " " + e.at.Format(time.TimeOnly)}, {plain, "  " + e.text}})
	}
	return lines
}

func (s *screen) foot() []line {
	on := target(s.view, s.typed)
	if on == "" {
		on = "none"
	}
	help := line{{plain, " "}}
	for _, k := range []struct{ key, does string }{
		{"k", " kill -9"}, {"w", " its worker only"}, {"s", " stop"}, {"a", " add"}, {"q", " quit"},
	} {
		help = append(help, span{bold, k.key}, span{plain, k.does + "  "})
	}
	note := ", 3k: on r3"
	if s.typed != 0 || len(s.view.Replicas) == 0 {
		note = ""
	}
	help = append(help, span{plain, " acts on "}, span{bold, on}, span{faint, note})
	return []line{
		{},
		help,
		{{faint, " logs " + s.view.Logs + "   shardctl status --server " + s.view.URL}},
	}
}

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

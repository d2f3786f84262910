package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/shardctl/shardctl/internal/printable"
	"github.com/shardctl/shardctl/pkg/api"
)

// Sequences of a terminal.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J" // the other screen, no cursor, empty
	leaveScreen = "\x1b[0m\x1b[?25h\x1b[?1049l"
	cursorHome  = "\x1b[H"
	clearLine   = "\x1b[K\r\n" // in raw mode a line ends with both
	clearRest   = "\x1b[K\x1b[J"
)

// Screen draws on the other screen of a terminal, so that what was there comes back.
type Screen struct {
	w     io.Writer
	drawn string
}

// OpenScreen takes the terminal over until [Screen.Close].
func OpenScreen(w io.Writer) *Screen {
	_, _ = io.WriteString(w, enterScreen) // a terminal that is gone ends the drawing
	return &Screen{w: w}
}

// Close gives the terminal back as it was.
func (s *Screen) Close() { _, _ = io.WriteString(s.w, leaveScreen) } // as above

// Draw shows lines that fit the terminal, and nothing else. It writes only what differs from the last drawing.
func (s *Screen) Draw(lines []string) error {
	text := cursorHome + strings.Join(lines, clearLine) + clearRest
	if text == s.drawn {
		return nil
	}
	s.drawn = text
	_, err := io.WriteString(s.w, text)
	return err
}

// liveScreen shows a live cluster on a terminal.
type liveScreen struct {
	screen  *Screen
	globals *Globals
	link    *link
}

func (d *liveScreen) close() { d.screen.Close() }

func (d *liveScreen) show(l *live, _ []api.Event) error {
	v := d.globals.View(d.screen.w)
	lost := ""
	if since, is := d.link.lostFor(v.Now); is {
		lost = fmt.Sprintf("Not connected to %s for %s; trying again", d.link.url, span(since))
	}
	return d.screen.Draw(renderLive(l, v, max(v.Height, leastHeight), lost))
}

// What is kept free on the screen, in lines.
const (
	leastHeight = 10
	fewMoves    = 4 // with the empty line before, however many instances there are
	fewProblems = 5 // with their title
)

// renderLive draws the cluster: no more lines than the height, none wider than the view. Groups and problems come
// first, instances get most of the rest, and moves what is left.
func renderLive(l *live, v *View, height int, lost string) []string {
	lines := []string{v.Cut(v.summary(l.status) + "   " + v.Now.Format(time.TimeOnly))}
	if lost != "" {
		lines = append(lines, v.Cut(v.Paint("33", printable.Line(lost))))
	}
	lines = append(append(lines, ""), TableLines(liveGroupColumns(), v, l.status.Groups, height/3)...)
	problems := TableLines(problemColumns(), v, l.status.Problems, fewProblems)
	if len(problems) > 0 {
		problems = append([]string{""}, problems...)
	}
	most := height - len(lines) - len(problems) - fewMoves - 1
	lines = append(append(lines, ""), TableLines(liveInstanceColumns(), v, l.shown(), most)...)
	lines = append(lines, problems...)
	lines = append(lines, moveLines(l.events, v, height-len(lines))...)
	return lines[:min(len(lines), height)]
}

// TableLines is a table of at most so many lines; the last one says how many items are left out.
func TableLines[T any](columns []Column[T], v *View, items []T, most int) []string {
	if len(items) == 0 {
		return nil
	}
	most = max(most, 2)
	shown := items
	if len(items)+1 > most {
		shown = items[:max(most-2, 0)]
	}
	var lines []string
	if len(shown) > 0 {
		lines = strings.Split(newPrinter(columns, false, true).render(v, shown), "\n")
	}
	if more := len(items) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	for i := range lines {
		lines[i] = v.Cut(lines[i])
	}
	return lines
}

// moveLines are what happened lately, the newest last, in at most so many lines.
func moveLines(events []api.Event, v *View, most int) []string {
	n := min(most-1, len(events))
	if n <= 0 {
		return nil
	}
	lines := []string{""}
	for i := range events[len(events)-n:] {
		e := &events[len(events)-n+i]
		at := e.Time.In(v.Now.Location()).Format(time.TimeOnly)
		lines = append(lines, v.Cut(at+"  "+printable.Line(eventText(e))))
	}
	return lines
}

// Cut keeps a line within the terminal, and ends it at the end of a word.
func (v *View) Cut(line string) string {
	if v.Width <= 0 || text.StringWidthWithoutEscSequences(line) <= v.Width {
		return line
	}
	line = text.Trim(line, v.Width-1)
	if i := strings.LastIndex(line, " "); i > v.Width/2 {
		line = strings.TrimRight(line[:i], " ")
	}
	if v.Colour {
		line += "\x1b[0m"
	}
	return line + "…"
}

// barWidth is how many columns a bar takes.
const barWidth = 20

// Bar shows parts of a whole: what is well, what is not yet, and what is free or missing.
func (v *View) Bar(well, other, whole int) string {
	if whole <= 0 {
		return ""
	}
	at := func(n int) int { return min((n*barWidth+whole-1)/whole, barWidth) }
	full := at(well)
	part := max(at(well+other), full)
	return v.Paint("32", strings.Repeat("█", full)) + v.Paint("33", strings.Repeat("▒", part-full)) +
		strings.Repeat("·", barWidth-part)
}

// liveGroupColumns show how much of each group runs.
func liveGroupColumns() []Column[api.Group] {
	type T = api.Group
	return []Column[T]{
		ofText("group", KeepExtra, func(g *T) string { return g.Name }),
		{Title: "runs", Keep: KeepUseful, Cell: func(v *View, g *T) string {
			well := g.Running + g.Waiting + g.Done
			return v.Bar(well, g.Tasks-well-g.Unassigned-g.Failed, g.Tasks)
		}},
		{Title: "tasks", Keep: KeepState, Prose: true, Cell: func(_ *View, g *T) string { return groupText(g) }},
		{Title: "capacity", Right: true, Cell: func(_ *View, g *T) string { return limitText(g.Capacity) }},
		{Title: "headroom", Right: true, Keep: KeepUseful, Cell: headroom},
	}
}

// liveInstanceColumns show how full each instance is.
func liveInstanceColumns() []Column[api.Instance] {
	type T = api.Instance
	return []Column[T]{
		ofText("instance", KeepExtra, func(i *T) string { return i.Name }),
		{Title: "state", Keep: KeepState, Cell: func(v *View, i *T) string { return v.stateOf(i) }},
		ofCount("tasks", KeepState, func(i *T) int { return total(i.Owned) }),
		{Title: "of its caps", Keep: KeepUseful, Cell: func(v *View, i *T) string {
			if i.State == api.Dead {
				return ""
			}
			capped := 0
			for group := range i.Caps {
				capped += i.Owned[group]
			}
			return v.Bar(capped, 0, total(i.Caps))
		}},
		{Title: "owned/cap", Keep: KeepReason, Cell: func(_ *View, i *T) string { return ownedText(i) }},
		ofText("zone", KeepExtra, func(i *T) string { return i.Zone }),
		{Title: "heartbeat", Right: true, Keep: KeepUseful, Cell: func(_ *View, i *T) string {
			return fmt.Sprintf("%.0fs", i.HeartbeatAgeSeconds)
		}},
		ofAge("age", KeepExtra, func(i *T) api.Time { return i.StartedAt }),
	}
}

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

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

// screen draws on the other screen of a terminal, so that what was there comes back.
type screen struct {
	w     io.Writer
	drawn string
}

// openScreen takes the terminal over until [screen.Close].
func openScreen(w io.Writer) *screen {
	_, _ = io.WriteString(w, enterScreen) // a terminal that is gone ends the drawing
	return &screen{w: w}
}

// Close gives the terminal back as it was.
func (s *screen) Close() { _, _ = io.WriteString(s.w, leaveScreen) } // as above

// draw shows lines that fit the terminal, and nothing else. It writes only what differs from the last drawing.
func (s *screen) draw(lines []string) error {
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
	screen  *screen
	globals *Globals
	link    *link
	foot    func() []string // nil: none
}

func (d *liveScreen) close() { d.screen.Close() }

func (d *liveScreen) show(l *live, _ []news) error {
	v := d.globals.surface(d.screen.w)
	lost := ""
	if since, is := d.link.lostFor(v.Now); is {
		lost = fmt.Sprintf("Not connected to %s for %s; trying again", d.link.url, span(since))
	}
	var foot []string
	if d.foot != nil {
		foot = d.foot()
	}
	return d.screen.draw(renderLive(l, v, max(v.Height, leastHeight), lost, foot))
}

// What is kept free on the screen, in lines.
const (
	leastHeight = 10
	fewNews     = 4 // with the empty line before, however many instances there are
	fewProblems = 5 // with their title
)

// renderLive draws the cluster: no more lines than the height, none wider than the view. Groups and problems come
// first, instances get most of the rest, and news what is left above the foot.
func renderLive(l *live, v *surface, height int, lost string, foot []string) []string {
	if len(foot) > 0 {
		foot = append([]string{""}, foot...)
		height = max(height-len(foot), 0)
	}
	lines := []string{"No replica has answered yet   " + v.Now.Format(time.TimeOnly)}
	if l.known() {
		lines[0] = v.summary(l.status) + "   " + v.Now.Format(time.TimeOnly)
	}
	if lost != "" {
		lines = append(lines, v.paint("33", Printable(lost)))
	}
	if l.known() {
		lines = append(append(lines, ""), tableLines(liveGroupColumns(), v, l.status.Groups, height/3)...)
		problems := tableLines(problemColumns(), v, l.status.Problems, fewProblems)
		if len(problems) > 0 {
			problems = append([]string{""}, problems...)
		}
		most := height - len(lines) - len(problems) - fewNews - 1
		instances := l.shown()
		lines = append(append(lines, ""), tableLines(liveInstanceColumns(instances), v, instances, most)...)
		lines = append(lines, problems...)
	}
	lines = append(lines, newsLines(l.news, v, height-len(lines))...)
	lines = append(lines[:min(len(lines), height)], foot...)
	for i := range lines {
		lines[i] = v.cut(lines[i])
	}
	return lines
}

// tableLines is a table of at most so many lines; the last one says how many items are left out.
func tableLines[T any](columns []column[T], v *surface, items []T, most int) []string {
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
	return lines
}

// newsLines are what happened lately, the newest last, in at most so many lines.
func newsLines(all []news, v *surface, most int) []string {
	n := min(most-1, len(all))
	if n <= 0 {
		return nil
	}
	lines := []string{""}
	for _, one := range all[len(all)-n:] {
		at := one.at.In(v.Now.Location()).Format(time.TimeOnly)
		lines = append(lines, at+"  "+Printable(one.text))
	}
	return lines
}

// cut keeps a line within the terminal, and ends it at the end of a word.
func (v *surface) cut(line string) string {
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

// bar shows parts of a whole: what is well, what is not yet, and what is free or missing.
func (v *surface) bar(well, other, whole int) string {
	if whole <= 0 {
		return ""
	}
	at := func(n int) int { return min((n*barWidth+whole-1)/whole, barWidth) }
	full := at(well)
	part := max(at(well+other), full)
	return v.paint("32", strings.Repeat("█", full)) + v.paint("33", strings.Repeat("▒", part-full)) +
		strings.Repeat("·", barWidth-part)
}

// liveGroupColumns show how much of each group runs.
func liveGroupColumns() []column[api.Group] {
	type T = api.Group
	return []column[T]{
		ofText("group", func(g *T) string { return g.Name }),
		{Title: "runs", Cell: func(v *surface, g *T) string {
			well := g.Running + g.Waiting + g.Done
			return v.bar(well, g.Tasks-well-g.Unassigned-g.Failed, g.Tasks)
		}},
		{Title: "tasks", Cell: func(_ *surface, g *T) string { return groupText(g) }},
		{Title: "capacity", Right: true, Cell: func(_ *surface, g *T) string { return limitText(g.Capacity) }},
		{Title: "headroom", Right: true, Cell: headroom},
	}
}

// liveInstanceColumns show how full each instance is, and applications if there are any.
func liveInstanceColumns(shown []api.Instance) []column[api.Instance] {
	type T = api.Instance
	columns := []column[T]{
		ofText("instance", func(i *T) string { return i.Name }),
		{Title: "state", Cell: func(v *surface, i *T) string { return v.stateOf(i) }},
		ofCount("tasks", func(i *T) int { return total(i.Owned) }),
		{Title: "of its caps", Cell: func(v *surface, i *T) string {
			if i.State == api.Dead {
				return ""
			}
			capped := 0
			for group := range i.Caps {
				capped += i.Owned[group]
			}
			return v.bar(capped, 0, total(i.Caps))
		}},
		{Title: "owned/cap", Cell: func(_ *surface, i *T) string { return ownedText(i) }},
		ofText("zone", func(i *T) string { return i.Zone }),
		{Title: "heartbeat", Right: true, Cell: func(_ *surface, i *T) string {
			return fmt.Sprintf("%.0fs", i.HeartbeatAgeSeconds)
		}},
		ofAge("age", func(i *T) api.Time { return i.StartedAt }),
	}
	if slices.ContainsFunc(shown, func(i T) bool { return i.Application != nil }) {
		columns = append(columns, ofText("application", func(i *T) string { return applicationText(i.Application) }))
	}
	return columns
}

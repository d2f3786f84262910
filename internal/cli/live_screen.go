package cli

import (
	"fmt"
	"io"
	"strconv"
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
	clearLine   = "\x1b[K\n"
	clearRest   = "\x1b[K\x1b[J"
)

// liveScreen draws on the other screen of a terminal, so that what was there comes back.
type liveScreen struct {
	globals *Globals
	w       io.Writer
	link    *link
	drawn   string
}

func newLiveScreen(g *Globals, w io.Writer, link *link) *liveScreen {
	_, _ = io.WriteString(w, enterScreen) // a terminal that is gone ends the drawing
	return &liveScreen{globals: g, w: w, link: link}
}

func (d *liveScreen) close() { _, _ = io.WriteString(d.w, leaveScreen) } // as above

func (d *liveScreen) show(l *live, _ []api.Event) error {
	v := d.globals.view(d.w)
	_, height := sizeOf(d.w)
	lost := ""
	if since, is := d.link.lostFor(v.now); is {
		lost = fmt.Sprintf("Not connected to %s for %s; trying again", d.link.url, span(since))
	}
	screen, err := renderLive(l, v, max(height, leastHeight), lost)
	if err != nil {
		return err
	}
	if screen = cursorHome + strings.ReplaceAll(screen, "\n", clearLine) + clearRest; screen == d.drawn {
		return nil
	}
	d.drawn = screen
	_, err = io.WriteString(d.w, screen)
	return err
}

// What is kept free on the screen, in lines.
const (
	leastHeight = 10
	fewMoves    = 4 // with the empty line before, however many instances there are
	fewProblems = 5 // with their title
)

// renderLive draws the cluster: no more lines than the height, none wider than the view. Groups and problems come
// first, instances get most of the rest, and moves what is left.
func renderLive(l *live, v *view, height int, lost string) (string, error) {
	lines := []string{v.cut(v.summary(l.status) + "   " + v.now.Format(time.TimeOnly))}
	if lost != "" {
		lines = append(lines, v.cut(v.paint("33", plainText(lost))))
	}
	groups, err := tableLines(liveGroupColumns(), v, l.status.Groups, height/3)
	if err != nil {
		return "", err
	}
	lines = append(append(lines, ""), groups...)
	problems, err := tableLines(problemColumns(), v, l.status.Problems, fewProblems)
	if err != nil {
		return "", err
	}
	after := 0
	if len(problems) > 0 {
		after = len(problems) + 1
	}
	instances, err := tableLines(liveInstanceColumns(), v, l.shown(), height-len(lines)-after-fewMoves-1)
	if err != nil {
		return "", err
	}
	lines = append(append(lines, ""), instances...)
	if after > 0 {
		lines = append(append(lines, ""), problems...)
	}
	lines = append(lines, moveLines(l.events, v, height-len(lines))...)
	return strings.Join(lines[:min(len(lines), height)], "\n"), nil
}

// tableLines are a table of at most so many lines; the last one says how many items are left out.
func tableLines[T any](columns []column[T], v *view, items []T, most int) ([]string, error) {
	if len(items) == 0 {
		return nil, nil
	}
	most = max(most, 2)
	shown := items
	if len(items)+1 > most {
		shown = items[:max(most-2, 0)]
	}
	var lines []string
	if len(shown) > 0 {
		var out strings.Builder
		if err := newPrinter(columns, false, true).print(&out, v, shown); err != nil {
			return nil, err
		}
		lines = strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	}
	if more := len(items) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	for i := range lines {
		lines[i] = v.cut(lines[i])
	}
	return lines, nil
}

// moveLines are what happened lately, the newest last, in at most so many lines.
func moveLines(events []api.Event, v *view, most int) []string {
	n := min(most-1, len(events))
	if n <= 0 {
		return nil
	}
	lines := []string{""}
	for i := range events[len(events)-n:] {
		e := &events[len(events)-n+i]
		at := e.Time.In(v.now.Location()).Format(time.TimeOnly)
		lines = append(lines, v.cut(at+"  "+plainText(eventText(e))))
	}
	return lines
}

// cut keeps a line within the terminal, and ends it at the end of a word.
func (v *view) cut(line string) string {
	if v.width <= 0 || text.StringWidthWithoutEscSequences(line) <= v.width {
		return line
	}
	line = text.Trim(line, v.width-1)
	if i := strings.LastIndex(line, " "); i > v.width/2 {
		line = strings.TrimRight(line[:i], " ")
	}
	if v.colour {
		line += "\x1b[0m"
	}
	return line + "…"
}

// barWidth is how many columns a bar takes.
const barWidth = 20

// bar shows parts of a whole: what is well, what is not yet, and what is free or missing.
func (v *view) bar(well, other, whole int) string {
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
		{title: "group", cell: func(_ *view, g *T) string { return orDash(g.Name) }},
		{title: "runs", keep: keepUseful, cell: func(v *view, g *T) string {
			well := g.Running + g.Waiting + g.Done
			return v.bar(well, g.Tasks-well-g.Unassigned-g.Failed, g.Tasks)
		}},
		{title: "tasks", keep: keepState, prose: true, cell: func(_ *view, g *T) string { return groupText(g) }},
		{title: "capacity", right: true, cell: func(_ *view, g *T) string { return limitText(g.Capacity) }},
		{title: "headroom", right: true, keep: keepUseful, cell: func(v *view, g *T) string {
			if g.Headroom != nil && *g.Headroom < 0 {
				return v.paint("31", limitText(g.Headroom))
			}
			return limitText(g.Headroom)
		}},
	}
}

// liveInstanceColumns show how full each instance is.
func liveInstanceColumns() []column[api.Instance] {
	type T = api.Instance
	return []column[T]{
		{title: "instance", cell: func(_ *view, i *T) string { return orDash(i.Name) }},
		{title: "state", keep: keepState, cell: func(v *view, i *T) string { return v.stateOf(i) }},
		{
			title: "tasks", right: true, keep: keepState,
			cell: func(_ *view, i *T) string { return strconv.Itoa(total(i.Owned)) },
		},
		{title: "of its caps", keep: keepUseful, cell: func(v *view, i *T) string {
			if i.State == api.Dead {
				return ""
			}
			capped := 0
			for group := range i.Caps {
				capped += i.Owned[group]
			}
			return v.bar(capped, 0, total(i.Caps))
		}},
		{title: "owned/cap", keep: keepReason, cell: func(_ *view, i *T) string { return ownedText(i) }},
		{title: "zone", cell: func(_ *view, i *T) string { return orDash(i.Zone) }},
		{title: "heartbeat", right: true, keep: keepUseful, cell: func(_ *view, i *T) string {
			return fmt.Sprintf("%.0fs", i.HeartbeatAgeSeconds)
		}},
		{title: "age", right: true, cell: func(v *view, i *T) string { return v.age(i.StartedAt) }},
	}
}

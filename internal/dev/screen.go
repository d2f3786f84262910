package dev

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/printable"
)

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
	fewEvents   = 3 // are kept on the screen however many replicas there are
	maxProblems = 3
)

// Attributes of ANSI terminals.
const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// render draws the screen: no more lines than the terminal has, none wider.
func (s *screen) render(v *cli.View) []string {
	head, foot := s.head(v), s.foot(v)
	troubles := s.troubles(v, min(maxProblems, (v.Height-len(head)-len(foot))/4))
	// What is left after the fixed lines goes to the replicas first, but for a few events; the rest to events.
	free := v.Height - len(head) - len(foot) - len(troubles)
	limit := max(2, free-fewEvents-2)
	rows := cli.TableLines(s.columns(), v, ordered(s.view.Replicas, limit), limit)
	lines := slices.Concat(head, rows, troubles, s.last(v, free-len(rows)), foot)
	lines = lines[:min(len(lines), v.Height)]
	for i := range lines {
		lines[i] = v.Cut(lines[i])
	}
	return lines
}

func (s *screen) head(v *cli.View) []string {
	running, most, living := s.view.Running(), s.view.Options.Tasks, 0
	colour := green
	if running < most {
		colour = yellow
	}
	for _, r := range s.view.Replicas {
		if !r.State.Gone() {
			living++
		}
	}
	return []string{
		v.Paint(bold, "shardctl dev") + "   " +
			v.Paint(colour, fmt.Sprintf("%d of %s running", running, tasks(most))) +
			fmt.Sprintf(" on %s, cap %d   ", cli.Count(living, "replica"), s.view.Options.Cap) +
			v.Paint(cyan, printable.Line(s.view.URL)),
		"",
	}
}

// ordered are the replicas in the order of their lines. Where not all fit, those that ended come last, the newest of
// them first.
func ordered(all []Replica, lines int) []Replica {
	if len(all) < lines {
		return all
	}
	shown := slices.Clone(all)
	slices.SortStableFunc(shown, func(a, b Replica) int {
		switch {
		case a.State.Gone() == b.State.Gone():
			return b.Ended.Compare(a.Ended)
		case a.State.Gone():
			return 1
		}
		return -1
	})
	return shown
}

var colours = map[State]string{
	Live: green, Starting: yellow, Leaving: yellow, Silent: yellow, Dead: red, Left: faint,
}

func (s *screen) columns() []cli.Column[Replica] {
	type T = Replica
	// ofRunning is a number that only a process that runs has.
	ofRunning := func(number func(*T) string) func(*cli.View, *T) string {
		return func(_ *cli.View, r *T) string {
			if r.State.Gone() {
				return "-"
			}
			return number(r)
		}
	}
	columns := []cli.Column[T]{
		{Title: "replica", Cell: func(_ *cli.View, r *T) string { return printable.Line(r.Name) }},
		{Title: "state", Keep: cli.KeepState, Cell: func(v *cli.View, r *T) string {
			return v.Paint(colours[r.State], string(r.State))
		}},
		{Title: "guard", Right: true, Cell: ofRunning(func(r *T) string { return strconv.Itoa(r.Guard) })},
		{Title: "worker", Right: true, Cell: ofRunning(func(r *T) string {
			return cmp.Or(strings.TrimPrefix(strconv.Itoa(r.Worker), "0"), "?")
		})},
		{Title: "application", Cell: ofRunning(func(r *T) string { return cmp.Or(printable.Line(cli.ApplicationText(r.App)), "?") })},
		{Title: "tasks", Right: true, Keep: cli.KeepState, Cell: func(_ *cli.View, r *T) string {
			if owned, _ := s.view.Owned(r.Name); owned > 0 || !r.State.Gone() {
				return strconv.Itoa(owned)
			}
			return "-"
		}},
		{Title: "of its cap", Keep: cli.KeepUseful, Cell: func(v *cli.View, r *T) string {
			owned, running := s.view.Owned(r.Name)
			if r.State.Gone() {
				running = 0 // even if the store still says otherwise
			}
			if r.State.Gone() && owned == 0 {
				return v.Paint(faint, printable.Line(r.Why))
			}
			return v.Bar(running, owned-running, s.view.Options.Cap)
		}},
	}
	if s.view.Options.App == "" {
		columns = slices.DeleteFunc(columns, func(c cli.Column[T]) bool { return c.Title == "application" })
	}
	return columns
}

// troubles are at most so many problems, and why no replica shows the cluster now.
func (s *screen) troubles(v *cli.View, limit int) []string {
	var lines []string
	if text := printable.Line(s.view.Stale); text != "" {
		if s.view.Seen {
			text += "; shown is how it was last"
		}
		lines = append(lines, v.Paint(yellow, text))
	}
	for i, p := range s.view.Problems {
		if i == limit {
			lines = append(lines, v.Paint(red, "and "+cli.Count(len(s.view.Problems)-i, "more problem")))
			break
		}
		reason := printable.Line(p.Reason)
		lines = append(lines, v.Paint(red, reason)+strings.TrimPrefix(printable.Line(p.String()), reason))
	}
	if len(lines) == 0 {
		return nil
	}
	return append([]string{""}, lines...)
}

// last are the newest events, at most so many lines with the empty one before them.
func (s *screen) last(v *cli.View, limit int) []string {
	n := min(limit-1, len(s.events))
	if n <= 0 {
		return nil
	}
	lines := []string{""}
	for _, e := range s.events[len(s.events)-n:] {
		lines = append(lines, v.Paint(faint, e.at.Format(time.TimeOnly))+"  "+printable.Line(e.text))
	}
	return lines
}

func (s *screen) foot(v *cli.View) []string {
	var help strings.Builder
	for _, k := range []struct{ key, does string }{
		{"k", " kill -9"}, {"w", " its worker only"}, {"s", " stop"}, {"a", " add"}, {"q", " quit"},
	} {
		help.WriteString(v.Paint(bold, k.key) + k.does + "  ")
	}
	help.WriteString(" acts on " + v.Paint(bold, cmp.Or(target(s.view, s.typed), "none")))
	if s.typed == 0 && len(s.view.Replicas) > 0 {
		help.WriteString(v.Paint(faint, ", 3k: on r3"))
	}
	return []string{"", help.String(), v.Paint(faint, printable.Line("logs "+s.view.Logs+"   shardctl status --server "+s.view.URL))}
}

package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// liveLines prints the screen once, and then a line for each change.
type liveLines struct {
	globals   *Globals
	w         io.Writer
	status    *api.Status // as it was printed
	instances map[string]api.Instance
	problems  map[string]api.Problem
}

func (d *liveLines) close() {}

func (d *liveLines) show(l *live, happened []api.Event) error {
	v := d.globals.view(d.w)
	var out strings.Builder
	if d.status == nil {
		if err := writeStatus(&out, v, l.status, l.shown()); err != nil {
			return err
		}
		out.WriteByte('\n')
		d.problems = problemsOf(l.status)
	} else {
		for i := range happened {
			d.line(&out, happened[i].Time.Time, eventText(&happened[i]))
		}
		d.groups(&out, v.now, l.status)
		d.difficulties(&out, v.now, l.status)
	}
	d.ofInstances(&out, v.now, l)
	d.status = l.status
	if out.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(d.w, out.String())
	return err
}

func (d *liveLines) line(out *strings.Builder, at time.Time, text string) {
	if at.IsZero() {
		at = d.globals.now()
	}
	fmt.Fprintf(out, "%s %s\n", at.In(d.globals.now().Location()).Format(time.TimeOnly), plainText(text))
}

// groups says how the tasks of groups are now, where that has changed.
func (d *liveLines) groups(out *strings.Builder, now time.Time, s *api.Status) {
	before := map[string]string{}
	for i := range d.status.Groups {
		before[d.status.Groups[i].Name] = groupText(&d.status.Groups[i])
	}
	for i := range s.Groups {
		text := groupText(&s.Groups[i])
		if before[s.Groups[i].Name] != text {
			d.line(out, now, fmt.Sprintf("group %s: %s", s.Groups[i].Name, text))
		}
	}
}

// difficulties says which problems are new, or say something else, and which are over.
func (d *liveLines) difficulties(out *strings.Builder, now time.Time, s *api.Status) {
	current := problemsOf(s)
	for i := range s.Problems {
		p := &s.Problems[i]
		if d.problems[problemID(p)].Message != p.Message {
			d.line(
				out, now,
				strings.Join(strings.Fields(fmt.Sprintf("problem %s %s", p.Reason, about(p))), " ")+": "+p.Message,
			)
		}
	}
	for i := range d.status.Problems {
		p := &d.status.Problems[i]
		if _, still := current[problemID(p)]; !still {
			d.line(out, now, strings.TrimSpace(fmt.Sprintf("problem over: %s %s", p.Reason, about(p))))
		}
	}
	d.problems = current
}

func problemID(p *api.Problem) string {
	return strings.Join([]string{p.Reason, p.Group, p.Task, p.Instance}, "\x00")
}

func problemsOf(s *api.Status) map[string]api.Problem {
	all := make(map[string]api.Problem, len(s.Problems))
	for i := range s.Problems {
		all[problemID(&s.Problems[i])] = s.Problems[i]
	}
	return all
}

// ofInstances says which instances are in another state than before.
func (d *liveLines) ofInstances(out *strings.Builder, now time.Time, l *live) {
	plain, begun := view{}, d.instances != nil
	for _, id := range slices.Sorted(maps.Keys(l.instances)) {
		i, before := l.instances[id], d.instances[id]
		state := plain.stateOf(&i)
		if !begun || before.Name != "" && plain.stateOf(&before) == state {
			continue
		}
		text := fmt.Sprintf("instance %s: %s", i.Name, state)
		if i.Message != "" {
			text += ", " + i.Message
		}
		d.line(out, now, text)
	}
	for _, id := range slices.Sorted(maps.Keys(d.instances)) {
		if _, still := l.instances[id]; !still {
			d.line(out, now, fmt.Sprintf("instance %s: gone", d.instances[id].Name))
		}
	}
	d.instances = maps.Clone(l.instances)
}

// groupText is a group in a few words: "98 of 100 running, 1 starting, 1 unassigned".
func groupText(g *api.Group) string {
	text := fmt.Sprintf("%d of %d running", g.Running, g.Tasks)
	if rest := others(g, api.Running); rest != "" {
		text += ", " + rest
	}
	return text
}

// eventText is what happened in a sentence.
func eventText(e *api.Event) string {
	why := reasonText(e.Reason, e.Message)
	if e.By != "" {
		why = strings.TrimSpace(why + " by " + e.By)
	}
	var text string
	switch {
	case e.Type == record.EventMoved && e.From == "":
		text = fmt.Sprintf("%s claimed by %s", e.Key, e.To)
	case e.Type == record.EventMoved:
		text = fmt.Sprintf("%s moved from %s to %s", e.Key, e.From, e.To)
	case e.Type == record.EventReleased:
		text = fmt.Sprintf("%s released by %s", e.Key, e.From)
	case e.Type == record.EventDied:
		text = fmt.Sprintf("instance %s died", e.From)
	default:
		text = strings.Join(strings.Fields(strings.Join([]string{e.Type, e.Key, e.From, e.To}, " ")), " ")
	}
	if why != "" {
		text += ": " + why
	}
	return text
}

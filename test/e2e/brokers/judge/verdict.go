package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Verdict is what is wrong, and some figures. Everything but the figures is empty when all promises were kept.
type Verdict struct {
	Missing   []string // confirmed messages that were not delivered
	Strange   []string // deliveries of what was never sent
	Disorder  []string // first deliveries that came after that of a later message
	Falls     []string // tokens lower than one before
	Unexcused []string // deliveries again for no fault
	TooMany   []string // deliveries again, more than a fault allows

	Figures Figures
}

// Figures are counts of a record.
type Figures struct {
	Sent, Confirmed, Delivered int
	Again                      int // deliveries of what was delivered before
	Allowed                    int // the most that Again may be: maxInFlight × (moves by a crash + reconnects)
	Moves                      int // changes of a task's instance
}

// Problems are all that is wrong, in some words each; the first few of every kind.
func (v Verdict) Problems() []string {
	return append(v.Unsafe(), words([]found{
		{"delivered again without a fault", v.Unexcused}, {"delivered again too often", v.TooMany},
	})...)
}

// Unsafe are those of the problems that must not be on any machine. One that stands still loses leases, and then
// delivers again what it had delivered.
func (v Verdict) Unsafe() []string {
	return words([]found{
		{"not delivered", v.Missing}, {"never sent", v.Strange}, {"out of order", v.Disorder}, {"token fell", v.Falls},
	})
}

// found are problems of one sort.
type found struct {
	sort  string
	lines []string
}

// words are a line for each sort that there is.
func words(all []found) (lines []string) {
	const most = 5
	for _, f := range all {
		if n := len(f.lines); n > 0 {
			lines = append(lines, fmt.Sprintf("%s (%d): %s", f.sort, n, strings.Join(f.lines[:min(n, most)], "; ")))
		}
	}
	return lines
}

// place is one message.
type place struct{ lane, seq int }

func (p place) String() string { return fmt.Sprintf("%d of lane %d", p.seq, p.lane) }

// Judge judges a record.
func Judge(r Record) Verdict {
	var v Verdict
	sent := map[place]bool{} // whether confirmed
	for _, s := range r.Sent {
		sent[place{s.Lane, s.Seq}] = s.Confirmed
		v.Figures.Sent++
		if s.Confirmed {
			v.Figures.Confirmed++
		}
	}
	first := v.order(r, sent)
	v.tokens(r)
	v.again(r, first)
	for p, confirmed := range sent {
		if _, ok := first[p]; confirmed && !ok {
			v.Missing = append(v.Missing, p.String())
		}
	}
	slices.Sort(v.Missing)
	v.Figures.Delivered = len(first)
	return v
}

// order looks at first deliveries and returns them.
func (v *Verdict) order(r Record, sent map[place]bool) map[place]Delivery {
	first, highest := map[place]Delivery{}, map[int]int{}
	for _, d := range r.Deliveries {
		p := place{d.Lane, d.Seq}
		if _, ok := sent[p]; !ok {
			v.Strange = append(v.Strange, fmt.Sprintf("%v to %s", p, d.Task))
			continue
		}
		if _, ok := first[p]; ok {
			continue
		}
		first[p] = d
		if d.Seq < highest[d.Lane] {
			v.Disorder = append(v.Disorder, fmt.Sprintf("%v first came after %d", p, highest[d.Lane]))
		}
		highest[d.Lane] = max(highest[d.Lane], d.Seq)
	}
	return first
}

// tokens looks at the tokens of each task in the order of arrival.
func (v *Verdict) tokens(r Record) {
	last := map[string]Delivery{}
	for _, d := range r.Deliveries {
		before, ok := last[d.Task]
		switch {
		case ok && d.Token < before.Token:
			v.Falls = append(v.Falls,
				fmt.Sprintf("%s: %d of %s after %d of %s", d.Task, d.Token, d.Instance, before.Token,
					before.Instance))
			continue
		case ok && d.Instance != before.Instance:
			v.Figures.Moves++
		}
		last[d.Task] = d
	}
}

// again looks for an excuse for each delivery of what was delivered before.
func (v *Verdict) again(r Record, first map[place]Delivery) {
	latest := maps.Clone(first)
	seen := map[place]bool{}
	used := map[excuse]int{}
	for _, d := range r.Deliveries {
		p := place{d.Lane, d.Seq}
		if _, ok := first[p]; !ok {
			continue // strange
		}
		if !seen[p] {
			seen[p] = true
			continue
		}
		v.Figures.Again++
		e, ok := r.excuse(latest[p], d, used)
		if !ok {
			v.Unexcused = append(v.Unexcused,
				fmt.Sprintf("%v to %s: by %s (token %d) at %s, again by %s (token %d) at %s", p,
					d.Task, latest[p].Instance, latest[p].Token, clock(latest[p]), d.Instance, d.Token, clock(d)))
		}
		latest[p] = d
		used[e]++
	}
	v.allowed(r, used)
}

func clock(d Delivery) string { return d.At.Format("15:04:05.000") }

// excuse is one fault, for one task.
type excuse struct {
	task         string
	crash, pause int // index in the record, from 1
}

// excuse is the fault that explains a delivery again: the one that has explained least, where there are several.
func (r Record) excuse(before, again Delivery, used map[excuse]int) (excuse, bool) {
	var found []excuse
	for i, c := range r.Crashes {
		if c.between(before, again) {
			found = append(found, excuse{task: again.Task, crash: i + 1})
		}
	}
	for i, b := range r.Breaks {
		if b.between(before, again) {
			found = append(found, excuse{task: again.Task, pause: i + 1})
		}
	}
	if len(found) == 0 {
		return excuse{}, false
	}
	return slices.MinFunc(found, func(a, b excuse) int { return cmp.Compare(used[a], used[b]) }), true
}

// allowed counts what faults allow in all, and finds those that would have to excuse too much.
func (v *Verdict) allowed(r Record, used map[excuse]int) {
	for e, n := range used {
		if e != (excuse{}) && n > r.InFlight {
			v.TooMany = append(v.TooMany, fmt.Sprintf("%d messages of %s for one fault, with %d in flight", n, e.task,
				r.InFlight))
		}
	}
	slices.Sort(v.TooMany)
	owners, tasks := map[string]string{}, map[string]bool{}
	for _, d := range r.Deliveries {
		if owner := owners[d.Task]; owner != "" && owner != d.Instance && r.crashed(owner) {
			v.Figures.Allowed += r.InFlight
		}
		owners[d.Task], tasks[d.Task] = d.Instance, true
	}
	v.Figures.Allowed += r.InFlight * len(tasks) * len(r.Breaks)
}

func (r Record) crashed(instance string) bool {
	return slices.ContainsFunc(r.Crashes, func(c Crash) bool { return c.Instance == instance })
}

package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// instanceFacts are what is known of an instance.
type instanceFacts struct {
	Instance  *api.Instance  `json:"instance"`
	Problems  []api.Problem  `json:"problems"`  // about it, or about a task that it owns
	Overrides []api.Override `json:"overrides"` // about it, and pins and moves to it; null: not known
	Tasks     []api.Task     `json:"tasks"`     // that it owns
	Events    []api.Event    `json:"events"`    // the newest first; null: not known
	Unknown   unknown        `json:"unknown"`   // why a list is null
}

func (r *reader) instance(ctx context.Context, name string) (facts, error) {
	i, err := r.client.Instances().Get(ctx, name)
	if err != nil {
		return nil, err
	}
	f := &instanceFacts{Instance: i, Unknown: unknown{}}
	tasks, err := r.client.Tasks().List(ctx, client.Filter{Instance: i.Name})
	if err != nil {
		return nil, err
	}
	f.Tasks = filled(tasks)
	f.Problems, err = r.problems(ctx, func(p *api.Problem) bool {
		return p.Instance == i.Name || slices.ContainsFunc(tasks, func(t api.Task) bool { return t.Key == p.Task })
	})
	if err != nil {
		return nil, err
	}
	overrides, err := r.client.Overrides().List(ctx, client.Filter{Instance: i.Name})
	if err == nil {
		f.Overrides = filled(overrides)
	} else if err = f.Unknown.note("overrides", err); err != nil {
		return nil, err
	}
	f.Events, err = r.events(ctx, client.Filter{Instance: i.Name}, f.Unknown)
	return f, err
}

func (f *instanceFacts) show(d *description) {
	i := f.Instance
	d.field("Instance", Printable(i.Name))
	state := d.view.state(string(i.State))
	if i.Message != "" {
		state += ": " + Printable(i.Message)
	}
	d.field("State", state)
	if !i.StartedAt.IsZero() {
		d.field("Started", fmt.Sprintf("%s (%s ago)", i.StartedAt, d.view.ago(i.StartedAt)))
	}
	d.field("Heartbeat", fmt.Sprintf("%.1fs ago", i.HeartbeatAgeSeconds))
	d.field("Tasks", strconv.Itoa(total(i.Owned)))
	d.field("Zone", Printable(i.Zone))
	d.field("Version", Printable(i.Version))
	d.field("Revision", Printable(i.Revision))
	d.field("Address", Printable(i.Address))
	d.field("App address", Printable(i.AppAddress))
	d.application(i.Application)
	d.stopping(i.Application)
	d.field("Labels", labelText(i.Labels))
	d.field("Session", Printable(i.Session))
	d.wrong(f.Problems)
	d.title("overrides")
	if !d.unavailable("overrides", f.Unknown) {
		section(&d.sections, d.view, overrideColumns(), f.Overrides, "none")
	}
	d.title("groups")
	section(&d.sections, d.view, shareColumns(), f.shares(), "it owns nothing, and has no cap")
	d.tasks("tasks", f.Tasks)
	d.events(f.Events, f.Unknown)
}

// application shows the process beside an instance, if one is configured.
func (d *description) application(a *api.Application) {
	if a == nil {
		return
	}
	text := applicationText(a)
	if a.ID != "" {
		text += ", id " + a.ID + ", since " + a.Since.String()
	}
	if a.LastCallAgeSeconds != nil {
		text += fmt.Sprintf(", last call %.1fs ago", *a.LastCallAgeSeconds)
	}
	if a.Message != "" {
		text += ": " + a.Message
	}
	d.field("Application", Printable(text))
	d.field("App status", Printable(labelText(a.Status)))
}

// stopping shows what an application has to stop, and how long it has.
func (d *description) stopping(a *api.Application) {
	if a == nil || len(a.Stopping) == 0 {
		return
	}
	var all []string
	for _, s := range a.Stopping {
		all = append(all, s.Key+" "+d.view.age(s.By))
	}
	d.field("To stop", Printable(strings.Join(all, ", ")))
}

// share is what an instance owns of a group.
type share struct {
	group string
	owned int
	limit string
	api.TaskCounts
}

// shares are by group what the instance owns, and may own.
func (f *instanceFacts) shares() []share {
	of := map[string]*share{}
	at := func(group string) *share {
		if of[group] == nil {
			of[group] = &share{group: group, owned: f.Instance.Owned[group], limit: "-"}
		}
		return of[group]
	}
	for group, limit := range f.Instance.Caps {
		at(group).limit = strconv.Itoa(limit)
	}
	for group := range f.Instance.Owned {
		at(group)
	}
	for i := range f.Tasks {
		at(f.Tasks[i].Group).Count(f.Tasks[i].State)
	}
	var list []share
	for _, group := range slices.Sorted(maps.Keys(of)) {
		list = append(list, *of[group])
	}
	return list
}

func shareColumns() []column[share] {
	return []column[share]{
		{Title: "group", Cell: func(_ *surface, s *share) string { return orDash(s.group) }},
		{Title: "owned", Right: true, Cell: func(_ *surface, s *share) string { return strconv.Itoa(s.owned) }},
		{Title: "cap", Right: true, Cell: func(_ *surface, s *share) string { return s.limit }},
		{Title: "states", Cell: func(_ *surface, s *share) string {
			return orDash(others(&api.Group{TaskCounts: s.TaskCounts}))
		}},
	}
}

// groupFacts are what is known of a group.
type groupFacts struct {
	Group     *api.Group     `json:"group"`
	Problems  []api.Problem  `json:"problems"` // about it
	Instances []api.Instance `json:"instances"`
	Tasks     []api.Task     `json:"tasks"`   // that do not run
	Events    []api.Event    `json:"events"`  // the newest first; null: not known
	Unknown   unknown        `json:"unknown"` // why a list is null
}

func (r *reader) ofGroup(ctx context.Context, name string) (facts, error) {
	g, err := r.client.Groups().Get(ctx, name)
	if err != nil {
		return nil, err
	}
	f := &groupFacts{Group: g, Unknown: unknown{}}
	f.Problems, err = r.problems(ctx, func(p *api.Problem) bool { return p.Group == g.Name })
	if err != nil {
		return nil, err
	}
	instances, err := r.client.Instances().List(ctx, client.Filter{})
	if err != nil {
		return nil, err
	}
	tasks, err := r.client.Tasks().List(ctx, client.Filter{Group: g.Name, State: "unassigned,backoff,failed,paused"})
	if err != nil {
		return nil, err
	}
	f.Instances, f.Tasks = filled(instances), filled(tasks)
	f.Events, err = r.events(ctx, client.Filter{Group: g.Name}, f.Unknown)
	return f, err
}

func (f *groupFacts) show(d *description) {
	g := f.Group
	d.field("Group", Printable(g.Name))
	d.field("Override", Printable(d.view.asked(g.Overrides, "group")))
	d.field("Tasks", strconv.Itoa(g.Tasks))
	for _, state := range api.TaskStates() {
		if n := g.InState(state); n > 0 {
			d.field("  "+string(state), strconv.Itoa(n))
		}
	}
	d.field("Cap", limitText(g.Cap))
	d.field("Capacity", limitText(g.Capacity))
	d.field("Headroom", limitText(g.Headroom))
	d.field("Imbalance", positive(g.Imbalance))
	d.field("Slots", positive(g.Slots))
	d.weights(g.Weights)
	d.discovery(g.Discovery)
	d.wrong(f.Problems)
	d.title("instances")
	section(&d.sections, d.view, instanceColumns(), f.Instances, "none are known")
	if len(f.Tasks) > 0 {
		d.tasks("tasks that do not run", f.Tasks)
	}
	d.events(f.Events, f.Unknown)
}

// weights says what the tasks are weighed by, where that is not what is declared.
func (d *description) weights(w *api.Weights) {
	if w == nil {
		return
	}
	text := fmt.Sprintf("by %s: %d raised", Printable(w.From), w.Raised)
	if w.Revision > 0 {
		text += fmt.Sprintf(", revision %d, %s ago by %s", w.Revision, d.view.ago(w.PublishedAt), Printable(w.By))
	}
	d.field("Weights", text)
}

// discovery says what was found, when, by whom, and what failed.
func (d *description) discovery(f *api.Discovery) {
	if f == nil {
		return
	}
	text := fmt.Sprintf("%d found by %s", f.Found, Printable(f.Lister))
	if f.LookedAt.IsZero() {
		text = "nothing yet by " + Printable(f.Lister)
	}
	if f.Vanished > 0 {
		text += fmt.Sprintf(", %d vanished", f.Vanished)
	}
	if f.LeftOut > 0 {
		text += fmt.Sprintf(", %d without a task", f.LeftOut)
	}
	d.field("Discovered", text)
	if !f.LookedAt.IsZero() {
		d.field("  looked", fmt.Sprintf("%s ago, by %s", d.view.ago(f.LookedAt), Printable(f.By)))
	}
	if f.Error != "" {
		d.field("  failing", Printable(f.Error))
	}
	if !f.FailingSince.IsZero() {
		d.field("  since", fmt.Sprintf("%s (%s ago), asked by %s", f.FailingSince, d.view.ago(f.FailingSince),
			Printable(f.By)))
	}
}

func (d *description) tasks(title string, tasks []api.Task) {
	d.title(title)
	shown := tasks[:min(len(tasks), maxOwned)]
	section(&d.sections, d.view, describedTaskColumns(), shown, "none")
	if more := len(tasks) - len(shown); more > 0 {
		d.line(fmt.Sprintf("and %d more", more))
	}
}

// describedTaskColumns are those of a list within a description: with the sentence, which says why.
func describedTaskColumns() []column[api.Task] {
	columns := slices.DeleteFunc(taskColumns(), func(c column[api.Task]) bool {
		return !slices.Contains([]string{"task", "state", "age", "restarts", "reason", "message"}, c.Title)
	})
	for i := range columns {
		columns[i].Wide = false
	}
	return columns
}

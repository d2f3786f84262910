package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// taskFacts are what is known of a task. One that is in no task list any more has a lock instead.
type taskFacts struct {
	Task     *api.Task     `json:"task"`
	Lock     *api.Lock     `json:"lock"`     // null while the task is declared
	Problems []api.Problem `json:"problems"` // about it
	Runs     []api.Run     `json:"runs"`     // the newest first; null: not known
	Events   []api.Event   `json:"events"`   // the newest first; null: not known
	Unknown  unknown       `json:"unknown"`  // why a list is null

	owner *api.Instance // nil: not known
}

func (r *reader) task(ctx context.Context, name string) (facts, error) {
	if name == "" {
		return r.failing(ctx)
	}
	f, err := r.ofTask(ctx, name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// ofTask reads what is known of one task.
func (r *reader) ofTask(ctx context.Context, name string) (*taskFacts, error) {
	w, err := wantTasks([]string{name}, r.group)
	if err != nil {
		return nil, err
	}
	key := w.args[0]
	group, short, _ := strings.Cut(key, "/")
	t, err := r.client.Tasks().Get(ctx, group, short)
	f := &taskFacts{Task: t, Problems: []api.Problem{}, Unknown: unknown{}}
	if bad, is := errors.AsType[*api.Error](err); is && bad.Status == http.StatusNotFound {
		err = r.undeclared(ctx, f, key, err)
	} else if err == nil {
		err = r.declared(ctx, f)
	}
	if err != nil {
		return nil, err
	}
	f.Events, err = r.events(ctx, client.Filter{Task: key}, f.Unknown)
	return f, err
}

func (r *reader) declared(ctx context.Context, f *taskFacts) (err error) {
	if f.Task.Instance != "" {
		f.owner, err = r.client.Instances().Get(ctx, f.Task.Instance)
		if err != nil {
			f.owner = nil // it is a note on the rest
		}
	}
	f.Problems, err = r.problems(ctx, func(p *api.Problem) bool { return p.Task == f.Task.Key })
	if err != nil {
		return err
	}
	runs, err := r.client.Tasks().Runs(ctx, f.Task.Group, f.Task.Name)
	if err != nil {
		return f.Unknown.note("runs", err)
	}
	f.Runs = filled(runs)
	return nil
}

// undeclared reads of a key that is in no task list any more.
func (r *reader) undeclared(ctx context.Context, f *taskFacts, key string, notFound error) error {
	group, _, _ := strings.Cut(key, "/")
	locks, err := r.client.Locks().List(ctx, client.Filter{Group: group, Q: key})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(locks, func(l api.Lock) bool { return l.Key == key })
	if i < 0 {
		return fmt.Errorf("%w; `shardctl get tasks` lists those there are", notFound)
	}
	f.Task, f.Lock, f.Runs = nil, &locks[i], []api.Run{}
	return nil
}

func (f *taskFacts) show(d *description) {
	if f.Task == nil {
		f.showLock(d)
	} else {
		f.showTask(d)
		d.wrong(f.Problems)
		f.showRuns(d)
	}
	d.events(f.Events, f.Unknown)
}

func (f *taskFacts) showLock(d *description) {
	d.field("Task", Printable(f.Lock.Key))
	d.field("State", d.view.state("not declared"))
	d.field("Instance", d.since(Printable(f.Lock.Instance), f.Lock.OwnedSince))
	d.field("Reason", reasonText(f.Lock.Reason, f.Lock.Message))
	d.field("Token", number(f.Lock.FencingToken))
}

func (f *taskFacts) showTask(d *description) {
	t := f.Task
	d.field("Task", Printable(t.Key))
	d.field("State", d.since(d.view.state(string(t.State)), t.StateSince))
	d.field("Why", Printable(d.why(t)))
	d.field("Instance", d.since(Printable(t.Instance), t.OwnedSince))
	f.showSilence(d)
	f.showApplication(d)
	if t.State != api.Unassigned && t.State != api.Paused {
		d.field("Reason", reasonText(t.Reason, t.Message))
	}
	d.field("Token", number(t.FencingToken))
	d.field("Pinned to", Printable(pinText(t)))
	d.field("Override", Printable(d.view.asked(t.Overrides, "task")))
	d.field("Next run", d.moment(t))
	d.field("Lag", lagText(t.Lag))
	d.field("Load", loadText(t.Load))
	d.field("Weight", weightText(t))
	d.field("Restarts", positive(t.Restarts))
	d.field("Last error", Printable(t.LastError))
	d.field("Kind", Printable(t.Kind))
	d.field("Labels", labelText(t.Labels))
	for _, name := range slices.Sorted(maps.Keys(t.Declared)) {
		d.field(name, Printable(t.Declared[name]))
	}
	d.field("Session", Printable(t.Session))
}

// behind is how many messages a subscription is behind; empty: not known.
func behind(lag *api.Lag) string {
	if lag == nil || lag.Messages < 0 {
		return ""
	}
	return strconv.FormatInt(lag.Messages, 10)
}

// lagText is how far a subscription is behind, in words; empty: not known.
func lagText(lag *api.Lag) string {
	n := behind(lag)
	if n == "" {
		return ""
	}
	text := n + " messages"
	if lag.Messages > 0 && lag.Seconds >= 0 {
		text += fmt.Sprintf(", the oldest %s old", time.Duration(lag.Seconds)*time.Second)
	}
	return text
}

// loadText is how much work a task is; empty: not known.
func loadText(load *float64) string {
	if load == nil {
		return ""
	}
	return strconv.FormatFloat(*load, 'g', 4, 64)
}

// weightText says what a task weighs where that is not what is declared; empty: it is.
func weightText(t *api.Task) string {
	if t.Weight == t.DeclaredWeight {
		return ""
	}
	return fmt.Sprintf("%d, by weightFrom (declared: %d)", t.Weight, t.DeclaredWeight)
}

// showApplication shows who runs a task with assign, and how long it has to stop.
func (f *taskFacts) showApplication(d *description) {
	if f.Task.Kind != "assign" || f.owner == nil {
		return
	}
	d.application(f.owner.Application)
	if a := f.owner.Application; a != nil {
		for _, s := range a.Stopping {
			if s.Key == f.Task.Key {
				d.field("To stop", d.view.age(s.By))
			}
		}
	}
}

// silence is from how long on the silence of an owner is reported.
const silence = 5 * time.Second

// showSilence says when the owner of a task has not been heard of lately.
func (f *taskFacts) showSilence(d *description) {
	if f.owner != nil && f.owner.HeartbeatAgeSeconds >= silence.Seconds() {
		d.field("Waits", fmt.Sprintf("for the lease of %s, silent for %.0f s: when it ends, a replica that is up "+
			"takes the task over", Printable(f.owner.Name), f.owner.HeartbeatAgeSeconds))
	}
}

// why says why a task does not run, or why it does not run well.
func (d *description) why(t *api.Task) string {
	switch t.State {
	case api.Unassigned, api.Paused:
		return reasonText(t.Reason, t.Message)
	case api.Backoff:
		text := "to be tried again: " + cmp.Or(t.LastError, "it ended")
		if t.Restarts >= manyRestarts {
			text = "crash-looping: " + cmp.Or(t.LastError, "it ended") + fmt.Sprintf(", %d restarts", t.Restarts)
		}
		if !t.NextRunAt.IsZero() {
			text += ", next " + d.view.age(t.NextRunAt)
		}
		return text
	case api.Failed:
		return "failed for good: " + cmp.Or(
			t.LastError, "see its runs",
		) + "; `shardctl rerun " + t.Key + "` runs it again"
	case api.Done:
		return "it has ended, and is not to run again"
	default:
		return ""
	}
}

// manyRestarts is from how many restarts on a task counts as crash-looping.
const manyRestarts = 3

func (d *description) moment(t *api.Task) string {
	if t.NextRunAt.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s)", t.NextRunAt, d.view.age(t.NextRunAt))
}

// showRuns shows the last runs of a task that has any, and what the newest that failed wrote.
func (f *taskFacts) showRuns(d *description) {
	if _, missing := f.Unknown["runs"]; !missing && len(f.Runs) == 0 {
		return
	}
	d.title("runs")
	if d.unavailable("runs", f.Unknown) {
		return
	}
	section(&d.sections, d.view, runColumns(), f.Runs, "none")
	for i := range f.Runs {
		if f.Runs[i].Output == "" {
			continue
		}
		d.line("")
		d.line("Output of the newest run that failed, " + d.view.ago(f.Runs[i].EndedAt) + " ago:")
		for line := range strings.Lines(f.Runs[i].Output) {
			d.line("  " + Printable(strings.TrimRight(line, "\n")))
		}
		return
	}
}

package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// source reads and watches one list.
type source[T any] interface {
	List(ctx context.Context, f client.Filter) ([]T, error)
	Watch(ctx context.Context, o client.WatchOptions, handle func(client.Change[T]) error) error
}

// resource is a list that can be got: how it is read, named and shown.
type resource[T any] struct {
	kind    string // plural
	columns []column[T]
	name    func(*T) string
	wanted  func(args []string, group string) (*wanted, error)
	of      func(*client.Client) source[T]
	// list reads those that are wanted, where that takes more than the list; nil: the list.
	list func(ctx context.Context, c *client.Client, f client.Filter, w *wanted) ([]T, error)
	gone func(*T)          // marks one that is no more, for a table that is watched
	at   func(*T) api.Time // when it happened; nil: the time of a watched row is that of its change
}

// list is a [resource] of any type.
type list interface {
	// get lists what is asked for, or watches it.
	get(ctx context.Context, r *request) error
	names(ctx context.Context, c *client.Client) ([]string, error)
}

var lists = map[string]list{
	"tasks": tasks(), "instances": instances(), "groups": groups(), "events": events(), "locks": locks(),
	"owners": owners(), "overrides": overrides(), "problems": problems(),
}

// names implements [list].
func (res resource[T]) names(ctx context.Context, c *client.Client) ([]string, error) {
	items, err := res.of(c).List(ctx, client.Filter{})
	return namesOf(items, res.name), err
}

func namesOf[T any](items []T, name func(*T) string) []string {
	list := make([]string, len(items))
	for i := range items {
		list[i] = name(&items[i])
	}
	return list
}

func tasks() resource[api.Task] {
	return resource[api.Task]{
		kind: "tasks", columns: taskColumns(), wanted: wantTasks,
		name: func(t *api.Task) string { return t.Key },
		of:   func(c *client.Client) source[api.Task] { return c.Tasks() },
		gone: func(t *api.Task) { t.State = "removed" },
	}
}

func instances() resource[api.Instance] {
	return resource[api.Instance]{
		kind: "instances", columns: instanceColumns(), wanted: wantPlain,
		name: func(i *api.Instance) string { return i.Name },
		of:   func(c *client.Client) source[api.Instance] { return c.Instances() },
		list: namedInstances,
		gone: func(i *api.Instance) { i.State = "removed" },
	}
}

// namedInstances are the instances of the list, and those that are hidden in it, as they have left, and are named.
func namedInstances(ctx context.Context, c *client.Client, f client.Filter, w *wanted) ([]api.Instance, error) {
	found, err := c.Instances().List(ctx, f)
	if err != nil || f.State != "" || f.Selector != "" || f.Group != "" {
		return found, err
	}
	for _, name := range w.args {
		if snapshot.IsPattern(name) || slices.ContainsFunc(found, func(i api.Instance) bool { return i.Name == name }) {
			continue
		}
		i, err := c.Instances().Get(ctx, name)
		switch {
		case err == nil:
			found = append(found, *i)
		case !errors.Is(err, client.ErrNotFound):
			return nil, err
		}
	}
	return found, nil
}

func groups() resource[api.Group] {
	return resource[api.Group]{
		kind: "groups", columns: groupColumns(), wanted: wantPlain,
		name: func(g *api.Group) string { return g.Name },
		of:   func(c *client.Client) source[api.Group] { return c.Groups() },
		gone: func(*api.Group) {},
	}
}

func events() resource[api.Event] {
	return resource[api.Event]{
		kind: "events", columns: eventColumns(), wanted: wantTasks,
		name: func(e *api.Event) string { return e.Key },
		of:   func(c *client.Client) source[api.Event] { return c.Events() },
		gone: func(*api.Event) {}, at: func(e *api.Event) api.Time { return e.Time },
	}
}

func locks() resource[api.Lock] {
	return resource[api.Lock]{
		kind: "locks", columns: lockColumns(), wanted: wantLocks,
		name: func(l *api.Lock) string { return l.Key },
		of:   func(c *client.Client) source[api.Lock] { return c.Locks() },
		gone: free,
	}
}

// free makes a lock of a program look as it is when it is neither held, waited for nor kept: the API then deletes it.
func free(l *api.Lock) {
	if l.Kind.OfProgram() {
		l.Owner = api.Owner{FencingToken: l.FencingToken}
		l.Reason, l.Message, l.Next = "", "", ""
		l.Holders, l.Waiting, l.Queue, l.KeptUntil = nil, 0, nil, api.Time{}
	}
}

func owners() resource[api.KeyOwner] {
	return resource[api.KeyOwner]{
		kind: "owners", columns: ownerColumns(), wanted: wantTasks,
		name: func(o *api.KeyOwner) string { return o.Key },
		of:   func(c *client.Client) source[api.KeyOwner] { return c.Owners() },
		gone: func(o *api.KeyOwner) { o.Owner, o.Address, o.ValidForSeconds = api.Owner{}, "", 0 },
	}
}

func overrides() resource[api.Override] {
	return resource[api.Override]{
		kind: "overrides", columns: overrideColumns(), wanted: wantLocks, // names of tasks, groups and instances
		name: func(o *api.Override) string { return o.Name },
		of:   func(c *client.Client) source[api.Override] { return c.Overrides() },
		gone: func(o *api.Override) { o.Kind += " (over)" },
	}
}

func wantPlain(args []string, _ string) (*wanted, error) { return wantNames(args) }

// problems are those of the status, the worst and oldest first.
func problems() resource[api.Problem] {
	return resource[api.Problem]{
		kind: "problems", columns: problemColumns(), wanted: wantPlain,
		name: func(p *api.Problem) string { return p.Reason },
		of:   func(c *client.Client) source[api.Problem] { return problemSource{c} },
		gone: func(p *api.Problem) { p.Severity = "over" },
	}
}

// problemSource is the list of problems in the status.
type problemSource struct{ client *client.Client }

// List implements [source].
func (s problemSource) List(ctx context.Context, f client.Filter) ([]api.Problem, error) {
	status, err := s.client.Status(ctx)
	if err != nil {
		return nil, err
	}
	return selectedProblems(status, f), nil
}

// Watch implements [source].
func (s problemSource) Watch(
	ctx context.Context, o client.WatchOptions, handle func(client.Change[api.Problem]) error,
) error {
	var last []api.Problem
	begun := false
	f := o.Filter
	o.Filter = client.Filter{}
	return s.client.WatchStatus(ctx, o, func(status *api.Status) error {
		now := selectedProblems(status, f)
		if !begun {
			begun, last = true, now
			return handle(client.Change[api.Problem]{Kind: client.Snapshot, Items: now, Stale: status.Stale})
		}
		fresh, over := problemChanges(last, now)
		last = now
		for _, p := range fresh {
			if err := handle(client.Change[api.Problem]{Kind: client.Upsert, Items: []api.Problem{p}}); err != nil {
				return err
			}
		}
		for _, p := range over {
			if err := handle(client.Change[api.Problem]{Kind: client.Delete, Items: []api.Problem{p}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// problemChanges are the problems that are new or say something else than before, and those that are over.
func problemChanges(before, now []api.Problem) (fresh, over []api.Problem) {
	type subject struct{ reason, group, task, instance string }
	of := func(p *api.Problem) subject { return subject{p.Reason, p.Group, p.Task, p.Instance} }
	said := make(map[subject]string, len(before))
	for i := range before {
		said[of(&before[i])] = before[i].Message
	}
	standing := make(map[subject]bool, len(now))
	for i := range now {
		standing[of(&now[i])] = true
		if message, known := said[of(&now[i])]; !known || message != now[i].Message {
			fresh = append(fresh, now[i])
		}
	}
	for i := range before {
		if !standing[of(&before[i])] {
			over = append(over, before[i])
		}
	}
	return fresh, over
}

// selectedProblems are those of a group, or all.
func selectedProblems(s *api.Status, f client.Filter) []api.Problem {
	selected := slices.DeleteFunc(slices.Clone(s.Problems), func(p api.Problem) bool {
		return f.Group != "" && p.Group != f.Group && !strings.HasPrefix(p.Task, f.Group+"/")
	})
	slices.SortStableFunc(selected, func(a, b api.Problem) int {
		return cmp.Or(cmp.Compare(severityRank(a.Severity), severityRank(b.Severity)), a.Since.Compare(b.Since.Time))
	})
	return selected
}

// severityRank is the place of a severity, the worst first.
func severityRank(s api.Severity) int {
	if i := slices.Index([]api.Severity{api.SeverityError, api.SeverityWarning}, s); i >= 0 {
		return i
	}
	return 2
}

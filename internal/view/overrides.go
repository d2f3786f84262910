package view

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
)

// overrideIndex is the overrides that still count, in all and by what they are about, the newest first.
type overrideIndex struct {
	all       []api.Override
	tasks     map[record.Key]api.Overrides
	groups    map[string]api.Overrides
	instances map[string]api.Overrides
}

func newOverrideIndex(view *cluster.View) overrideIndex {
	ix := overrideIndex{
		tasks: map[record.Key]api.Overrides{}, groups: map[string]api.Overrides{},
		instances: map[string]api.Overrides{},
	}
	if view == nil {
		return ix
	}
	newestFirst := slices.Clone(view.Overrides)
	slices.SortStableFunc(newestFirst, func(a, b record.Override) int { return int(min(max(b.At-a.At, -1), 1)) })
	for _, o := range newestFirst {
		endless := o.Scope == record.ScopeGroup && o.Kind.Once() // it has no end to be shown, as a rebalance
		if endless || o.Scope == record.ScopeTask && o.Over(view.Lock(record.Key(o.Name))) {
			continue
		}
		shown := shownOverride(o)
		ix.all = append(ix.all, shown)
		switch o.Scope {
		case record.ScopeInstance:
			ix.instances[o.Name] = append(ix.instances[o.Name], shown)
		case record.ScopeGroup:
			ix.groups[o.Name] = append(ix.groups[o.Name], shown)
		case record.ScopeTask:
			ix.tasks[record.Key(o.Name)] = append(ix.tasks[record.Key(o.Name)], shown)
		}
	}
	return ix
}

func shownOverride(o record.Override) api.Override {
	return api.Override{
		Kind: string(o.Kind), Scope: string(o.Scope), Name: o.Name, To: o.To, Strict: o.Strict, By: o.By,
		Reason: o.Reason, At: api.Millis(o.At), Until: api.Millis(o.Until),
	}
}

// ofTask are the task's own, and a pause of its group.
func (ix overrideIndex) ofTask(key record.Key) api.Overrides {
	return append(slices.Clip(ix.tasks[key]), ix.groups[key.Group()]...)
}

// pause is what keeps a task paused, nil when nothing does.
func (ix overrideIndex) pause(key record.Key) *api.Override {
	if own := ix.tasks[key].Find(string(record.OverridePause)); own != nil {
		return own
	}
	return ix.groups[key.Group()].Find(string(record.OverridePause))
}

// pinnedTo is what a task is pinned to; empty: it is not pinned.
func (ix overrideIndex) pinnedTo(key record.Key) string {
	if pin := ix.tasks[key].Find(string(record.OverridePin)); pin != nil {
		return pin.To
	}
	return ""
}

func (ix overrideIndex) has(instance string, kind record.OverrideKind) bool {
	return ix.instances[instance].Find(string(kind)) != nil
}

// whyPaused says who paused a task.
func whyPaused(o *api.Override) string {
	what := "paused"
	if o.Scope == string(record.ScopeGroup) {
		what = "its group is paused"
	}
	return what + untilText(o) + record.ByWhom(o.By, o.Reason)
}

// untilText says when an override ends by itself; empty: it stands until it is taken back.
func untilText(o *api.Override) string {
	if o.Until.IsZero() {
		return ""
	}
	return " until " + o.Until.UTC().Format(time.RFC3339)
}

// describeInstance says that an instance is drained or cordoned, and by whom; empty: neither.
func (ix overrideIndex) describeInstance(name string) string {
	for _, kind := range []record.OverrideKind{record.OverrideDrain, record.OverrideCordon} {
		if o := ix.instances[name].Find(string(kind)); o != nil {
			return string(kind) + "ed" + untilText(o) + record.ByWhom(o.By, o.Reason)
		}
	}
	return ""
}

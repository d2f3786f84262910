package replica

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// standing is what operators asked for and what still counts, in all and by what it is about.
type standing struct {
	all       []api.Override
	tasks     map[elect.Key]api.Overrides
	groups    map[string]api.Overrides
	instances map[string]api.Overrides
}

func standingOf(v *cluster.View) standing {
	s := standing{
		tasks: map[elect.Key]api.Overrides{}, groups: map[string]api.Overrides{},
		instances: map[string]api.Overrides{},
	}
	newestFirst := slices.Clone(v.Overrides)
	slices.SortStableFunc(newestFirst, func(a, b record.Override) int { return int(min(max(b.At-a.At, -1), 1)) })
	for _, o := range newestFirst {
		rebalance := o.Scope == record.ScopeGroup && o.Kind != record.OverridePause // it has no end to be shown
		if rebalance || o.Scope == record.ScopeTask && o.Over(v.Lock(elect.Key(o.Name))) {
			continue
		}
		shown := shownOverride(o)
		s.all = append(s.all, shown)
		switch o.Scope {
		case record.ScopeInstance:
			s.instances[o.Name] = append(s.instances[o.Name], shown)
		case record.ScopeGroup:
			s.groups[o.Name] = append(s.groups[o.Name], shown)
		case record.ScopeTask:
			s.tasks[elect.Key(o.Name)] = append(s.tasks[elect.Key(o.Name)], shown)
		}
	}
	return s
}

func shownOverride(o record.Override) api.Override {
	return api.Override{
		Kind: string(o.Kind), Scope: string(o.Scope), Name: o.Name, To: o.To, Strict: o.Strict, By: o.By,
		Reason: o.Reason,
		At:     api.Millis(o.At), Until: api.Millis(o.Until),
	}
}

// ofTask are the task's own, and a pause of its group.
func (s standing) ofTask(key elect.Key) api.Overrides {
	return append(slices.Clip(s.tasks[key]), s.groups[key.Group()]...)
}

// pause is what keeps a task paused, nil when nothing does.
func (s standing) pause(key elect.Key) *api.Override {
	if own := s.tasks[key].Find(string(record.OverridePause)); own != nil {
		return own
	}
	return s.groups[key.Group()].Find(string(record.OverridePause))
}

// pin is what pins a task, nil when nothing does.
func (s standing) pin(key elect.Key) *api.Override {
	return s.tasks[key].Find(string(record.OverridePin))
}

func (s standing) pinnedTo(key elect.Key) string {
	if pin := s.pin(key); pin != nil {
		return pin.To
	}
	return ""
}

func (s standing) has(instance string, kind record.OverrideKind) bool {
	return s.instances[instance].Find(string(kind)) != nil
}

// whyPaused says who paused a task.
func whyPaused(o *api.Override) string {
	what := "paused"
	if o.Scope == string(record.ScopeGroup) {
		what = "its group is paused"
	}
	return what + forAWhile(o) + record.ByWhom(o.By, o.Reason)
}

// forAWhile says until when an override stands that ends by itself; empty: until it is taken back.
func forAWhile(o *api.Override) string {
	if o.Until.IsZero() {
		return ""
	}
	return " until " + o.Until.UTC().Format(time.RFC3339)
}

// ofInstance says that an instance is drained or cordoned, and by whom; empty: neither.
func (s standing) ofInstance(name string) string {
	for _, kind := range []record.OverrideKind{record.OverrideDrain, record.OverrideCordon} {
		if o := s.instances[name].Find(string(kind)); o != nil {
			return string(kind) + "ed" + forAWhile(o) + record.ByWhom(o.By, o.Reason)
		}
	}
	return ""
}

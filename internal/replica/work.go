package replica

import (
	"context"
	"sync"

	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// taskList is what the supervisor is to know.
func taskList(s *config.Settings) []*tasks.Task {
	list := make([]*tasks.Task, 0, s.Tasks())
	for _, g := range s.Groups {
		for i := range g.Tasks {
			list = append(list, &g.Tasks[i])
		}
	}
	return list
}

// asked is what operators ask of single tasks, ready to look up. It may be used from many goroutines.
type asked struct {
	view func() *cluster.View

	mu       sync.Mutex
	of       []record.Override // what requests were made of
	requests requests
}

// get is what is asked of a task in the newest view. Views share their overrides while these stay as they are.
func (a *asked) get(key elect.Key) tasks.Asked {
	overrides := a.view().Overrides
	a.mu.Lock()
	defer a.mu.Unlock()
	if !sameList(a.of, overrides) {
		a.of, a.requests = overrides, requestsOf(overrides)
	}
	return a.requests.to(key)
}

// requests are what operators ask of tasks.
type requests struct {
	byKey   map[elect.Key]tasks.Asked
	resumed map[string]int64 // groups: when, Unix ms
}

func requestsOf(overrides []record.Override) requests {
	r := requests{byKey: map[elect.Key]tasks.Asked{}, resumed: map[string]int64{}}
	for _, o := range overrides {
		if o.Scope == record.ScopeGroup {
			if o.Kind == record.OverrideResume {
				r.resumed[o.Name] = o.Resumed()
			}
			continue
		}
		t := r.byKey[elect.Key(o.Name)]
		switch o.Kind {
		case record.OverrideRestart:
			t.Restart = o.Token
		case record.OverrideRerun:
			t.Rerun = o.Token
		case record.OverrideTrigger:
			t.Trigger = o.Token
		case record.OverrideResume:
			t.Resumed = o.Resumed()
		default:
			continue
		}
		r.byKey[elect.Key(o.Name)] = t
	}
	return r
}

func (r requests) to(key elect.Key) tasks.Asked {
	t := r.byKey[key]
	t.Resumed = max(t.Resumed, r.resumed[key.Group()])
	return t
}

// sameList says whether two lists are one.
func sameList[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// keepAsking has the tasks obey what operators ask of them whenever that changes, until ctx ends.
func keepAsking(ctx context.Context, c elect.Cluster, obey func()) {
	var last []record.Override
	for {
		changed := c.Changed()
		if now := c.View().Overrides; !sameList(last, now) {
			last = now
			obey()
		}
		select {
		case <-changed:
		case <-c.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// ended says whether all keys have an outcome that still counts, and how many of these are failures.
func ended(v *cluster.View, keys []elect.Key) (all bool, failed int) {
	if !v.Loaded {
		return false, 0
	}
	again := requestsOf(v.Overrides)
	for _, key := range keys {
		outcome := v.Lock(key).Status.Outcome
		if rerun := again.to(key).Rerun; outcome == nil || rerun > 0 && rerun >= outcome.Token {
			return false, 0
		}
		if !outcome.Succeeded {
			failed++
		}
	}
	return true, failed
}

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

	mu    sync.Mutex
	of    []record.Override // what byKey was made of
	byKey map[elect.Key]tasks.Asked
}

// get is what is asked of a task in the newest view. Views share their overrides while these stay as they are.
func (a *asked) get(key elect.Key) tasks.Asked {
	overrides := a.view().Overrides
	a.mu.Lock()
	defer a.mu.Unlock()
	if !sameList(a.of, overrides) {
		a.of, a.byKey = overrides, askedOf(overrides)
	}
	return a.byKey[key]
}

func askedOf(overrides []record.Override) map[elect.Key]tasks.Asked {
	byKey := map[elect.Key]tasks.Asked{}
	for _, o := range overrides {
		t := byKey[elect.Key(o.Name)]
		switch o.Kind {
		case record.OverrideRestart:
			t.Restart = o.Token
		case record.OverrideRerun:
			t.Rerun = o.Token
		case record.OverrideTrigger:
			t.Trigger = o.Token
		default:
			continue
		}
		byKey[elect.Key(o.Name)] = t
	}
	return byKey
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
	again := askedOf(v.Overrides)
	for _, key := range keys {
		outcome := v.Lock(key).Status.Outcome
		if rerun := again[key].Rerun; outcome == nil || rerun > 0 && rerun >= outcome.Token {
			return false, 0
		}
		if !outcome.Succeeded {
			failed++
		}
	}
	return true, failed
}

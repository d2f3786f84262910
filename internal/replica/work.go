package replica

import (
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

// rerunAt is when an operator last asked for a new run of a task that has ended. It is by the store's clock in Unix ms;
// 0: never.
func rerunAt(v *cluster.View, key elect.Key) (at int64) {
	for _, o := range v.Overrides {
		if o.Kind == record.OverrideRerun && elect.Key(o.Name) == key {
			at = max(at, o.At)
		}
	}
	return at
}

// ended says whether all keys have an outcome that still counts, and how many of these are failures.
func ended(v *cluster.View, keys []elect.Key) (all bool, failed int) {
	if !v.Loaded {
		return false, 0
	}
	for _, key := range keys {
		outcome := v.Lock(key).Status.Outcome
		if outcome == nil || rerunAt(v, key) > outcome.At {
			return false, 0
		}
		if !outcome.Succeeded {
			failed++
		}
	}
	return true, failed
}

package replica

import (
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// problemRegistry keeps what is wrong and since when. Some problems are set and cleared by events; the rest are found
// with each snapshot. Use newProblemRegistry.
type problemRegistry struct {
	mu     sync.Mutex
	marked map[problemID]api.Problem
	since  map[problemID]time.Time // of those found with the last snapshots
}

type problemID struct{ reason, group, task, instance string }

func newProblemRegistry() problemRegistry {
	return problemRegistry{marked: map[problemID]api.Problem{}, since: map[problemID]time.Time{}}
}

func idOf(p api.Problem) problemID { return problemID{p.Reason, p.Group, p.Task, p.Instance} }

func (r *problemRegistry) set(p api.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Since = api.Millis(time.Now().UnixMilli())
	if known, ok := r.marked[idOf(p)]; ok {
		p.Since = known.Since
	}
	r.marked[idOf(p)] = p
}

// clear removes every problem of a reason.
func (r *problemRegistry) clear(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.marked {
		if id.reason == reason {
			delete(r.marked, id)
		}
	}
}

func (r *problemRegistry) clearTask(reason, task string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.marked {
		if id.reason == reason && id.task == task {
			delete(r.marked, id)
		}
	}
}

// with returns those that are set and those found just now, each since it was first seen. A problem found that has not
// lasted as long as it must is left out.
func (r *problemRegistry) with(found []finding, now time.Time) []api.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []api.Problem
	for _, p := range r.marked {
		all = append(all, p)
	}
	since := make(map[problemID]time.Time, len(found))
	for _, f := range found {
		id := idOf(f.Problem)
		if since[id] = r.since[id]; since[id].IsZero() {
			since[id] = now
		}
		if now.Sub(since[id]) < f.lasting {
			continue
		}
		f.Since = api.Millis(since[id].UnixMilli())
		all = append(all, f.Problem)
	}
	r.since = since
	return all
}

// finding is a problem found with a snapshot; it counts once it has lasted so long.
type finding struct {
	api.Problem
	lasting time.Duration
}

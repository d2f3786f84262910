package status

import (
	"cmp"
	"net/http"
	"slices"
)

// status answers with the cluster on one screen.
func (s *server) status(w http.ResponseWriter, r *http.Request) *Error {
	q, bad := s.query(r, "/api/v1/status", nil, nil)
	if bad != nil {
		return bad
	}
	snapshot, bad := s.snapshot()
	switch {
	case bad != nil:
		return bad
	case q.watch:
		return s.watch.stream(w, r, s.watch.status)
	}
	l, err := statusLines(&snapshot.Status)
	if err != nil {
		return problem(http.StatusInternalServerError, "Internal", "%v", err)
	}
	writeLines(w, l)
	return nil
}

// list answers with one page of a list, or watches all of it.
func list[T any](s *server, d *differ[T]) endpoint {
	return func(w http.ResponseWriter, r *http.Request) *Error {
		q, bad := s.query(r, d.path, d.params, d.states)
		if bad != nil {
			return bad
		}
		snapshot, bad := s.snapshot()
		switch {
		case bad != nil:
			return bad
		case q.watch:
			return s.watch.stream(w, r, func(out *stream) error { return watchList(s.watch, d, &q, out) })
		}
		writeLines(w, d.page(snapshot, &q, s.now()))
		return nil
	}
}

func (s *server) task(w http.ResponseWriter, r *http.Request) *Error {
	t, bad := s.findTask(r)
	if bad != nil {
		return bad
	}
	writeJSON(w, t)
	return nil
}

func (s *server) findTask(r *http.Request) (*Task, *Error) {
	snapshot, bad := s.snapshot()
	if bad != nil {
		return nil, bad
	}
	key := r.PathValue("group") + "/" + r.PathValue("name")
	t := snapshot.Task(key)
	if t == nil {
		return nil, notFound("no task %q is declared", key)
	}
	return t, nil
}

func (s *server) instance(w http.ResponseWriter, r *http.Request) *Error {
	snapshot, bad := s.snapshot()
	if bad != nil {
		return bad
	}
	name := r.PathValue("name")
	i := snapshot.Instance(name)
	if i == nil {
		return notFound("no instance %q is known; those dead for an hour are forgotten", name)
	}
	writeJSON(w, i)
	return nil
}

// Task is the one with that key, nil when there is none. The snapshot is in order.
func (s *Snapshot) Task(key string) *Task {
	i, found := slices.BinarySearchFunc(s.Tasks, key, func(t Task, key string) int { return cmp.Compare(t.Key, key) })
	if !found {
		return nil
	}
	return &s.Tasks[i]
}

// Instance is the one with that name, nil when there is none. Of several sessions it is the one that takes part most,
// and of those the newest.
func (s *Snapshot) Instance(name string) *Instance {
	var best *Instance
	for i := range s.Instances {
		c := &s.Instances[i]
		if c.Name != name {
			continue
		}
		if best == nil || c.State.rank() < best.State.rank() ||
			c.State == best.State && c.StartedAt.After(best.StartedAt.Time) {
			best = c
		}
	}
	return best
}

func (s InstanceState) rank() int {
	switch s {
	case Live:
		return 0
	case Draining:
		return 1
	default:
		return 2
	}
}

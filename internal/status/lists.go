package status

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"

	"github.com/shardctl/shardctl/internal/httperr"
	"github.com/shardctl/shardctl/pkg/api"
)

// status answers with the cluster on one screen.
func (s *server) status(w http.ResponseWriter, r *http.Request) *Error {
	q, bad := s.query(r, s.statuses.path, nil, nil)
	if bad != nil {
		return bad
	}
	snapshot, bad := s.snapshot()
	switch {
	case bad != nil:
		return bad
	case q.watch:
		return s.watch.stream(w, r, func(out *stream) error { return s.statuses.watch(s.watch, out, &q) })
	}
	return s.whole.get(r, snapshot.Version, func(_ context.Context, out io.Writer) *Error {
		l, err := statusLines(&snapshot.Status, q.hidden)
		if err != nil {
			return internal(err)
		}
		return writeLines(out, l)
	}).send(w, r, mediaJSON)
}

// list answers with one page of a list, or watches all of it.
func list[T any](s *server, d *topic[T]) endpoint {
	return func(w http.ResponseWriter, r *http.Request) *Error {
		q, bad := s.query(r, d.path, d.params, d.states)
		if bad != nil {
			return bad
		}
		return answerList(s, d, w, r, &q)
	}
}

// listLocks is list, with mutexes as they are now where they are asked for.
func (s *server) listLocks(w http.ResponseWriter, r *http.Request) *Error {
	q, bad := s.query(r, s.locks.path, s.locks.params, nil)
	if bad != nil {
		return bad
	}
	if q.wantsMutexes() {
		s.locks.renew(r.Context())
	}
	return answerList(s, s.locks, w, r, &q)
}

func answerList[T any](s *server, d *topic[T], w http.ResponseWriter, r *http.Request, q *query) *Error {
	if _, bad := s.snapshot(); bad != nil {
		return bad
	}
	if q.watch {
		return s.watch.stream(w, r, func(out *stream) error { return d.watch(s.watch, out, q) })
	}
	snapshot := d.source.Snapshot()
	return s.answers(q).get(r, snapshot.Version, func(_ context.Context, out io.Writer) *Error {
		return writeLines(out, d.page(snapshot, q, s.now()))
	}).sendTagged(w, r, mediaJSON)
}

func (s *server) task(w http.ResponseWriter, r *http.Request) *Error {
	snapshot, t, bad := s.findTask(r)
	if bad != nil {
		return bad
	}
	return answerOne(w, snapshot, shownTask(t, outputHidden(r) != nil))
}

// answerOne answers with one object of a snapshot.
func answerOne[T any](w http.ResponseWriter, s *Snapshot, item *T) *Error {
	writeJSON(w, api.One[*T]{Item: item, Stale: s.Status.Stale})
	return nil
}

func (s *server) findTask(r *http.Request) (*Snapshot, *api.Task, *Error) {
	snapshot, bad := s.snapshot()
	if bad != nil {
		return nil, nil, bad
	}
	key := r.PathValue("group") + "/" + r.PathValue("name")
	t := snapshot.Task(key)
	if t == nil {
		return nil, nil, httperr.NotFound("no task %q is declared", key)
	}
	return snapshot, t, nil
}

func (s *server) group(w http.ResponseWriter, r *http.Request) *Error {
	snapshot, bad := s.snapshot()
	if bad != nil {
		return bad
	}
	name := r.PathValue("name")
	g := snapshot.Group(name)
	if g == nil {
		return httperr.NotFound("no group %q is declared", name)
	}
	return answerOne(w, snapshot, g)
}

func (s *server) instance(w http.ResponseWriter, r *http.Request) *Error {
	snapshot, bad := s.snapshot()
	if bad != nil {
		return bad
	}
	name := r.PathValue("name")
	i := snapshot.Instance(name)
	if i == nil {
		return httperr.NotFound("no instance %q is known; those dead for an hour are forgotten", name)
	}
	return answerOne(w, snapshot, i)
}

// runs answers with the last runs of a task.
func (s *server) runs(source RunSource) endpoint {
	return func(w http.ResponseWriter, r *http.Request) *Error {
		_, t, bad := s.findTask(r)
		if bad != nil {
			return bad
		}
		return s.read.get(r, 0, func(ctx context.Context, out io.Writer) *Error {
			return writeRuns(ctx, out, source, t.Key, outputHidden(r) != nil)
		}).send(w, r, mediaJSON)
	}
}

func writeRuns(ctx context.Context, out io.Writer, source RunSource, key string, hidden bool) *Error {
	var list api.List[api.Run]
	if source != nil {
		ctx, cancel := context.WithTimeout(ctx, eventTimeout)
		defer cancel()
		runs, err := source.Runs(ctx, key)
		if err != nil {
			return httperr.Unavailable(
				api.ReasonStoreUnreachable, "the store does not answer, and runs are only there",
			)
		}
		list.Items = shownRuns(runs, hidden)
	}
	return internal(json.NewEncoder(out).Encode(list))
}

// Task is the one with that key, nil when there is none. The snapshot is in order.
func (s *Snapshot) Task(key string) *api.Task {
	i, found := slices.BinarySearchFunc(
		s.Tasks, key, func(t api.Task, key string) int { return cmp.Compare(t.Key, key) },
	)
	if !found {
		return nil
	}
	return &s.Tasks[i]
}

// Group is the one with that name, nil when there is none. The snapshot is in order.
func (s *Snapshot) Group(name string) *api.Group {
	i, found := slices.BinarySearchFunc(
		s.Status.Groups, name, func(g api.Group, name string) int { return cmp.Compare(g.Name, name) },
	)
	if !found {
		return nil
	}
	return &s.Status.Groups[i]
}

// Instance is the one with that name, nil when there is none. Of several sessions it is the one that takes part most,
// and of those the newest.
func (s *Snapshot) Instance(name string) *api.Instance {
	var best *api.Instance
	for i := range s.Instances {
		c := &s.Instances[i]
		if c.Name != name {
			continue
		}
		if best == nil || stateRank(c.State) < stateRank(best.State) ||
			c.State == best.State && c.StartedAt.After(best.StartedAt.Time) {
			best = c
		}
	}
	return best
}

func stateRank(s api.InstanceState) int {
	switch s {
	case api.Live:
		return 0
	case api.Draining:
		return 1
	case api.Left:
		return 2
	default:
		return 3
	}
}

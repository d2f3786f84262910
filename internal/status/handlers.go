package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// listHandler answers with one page of a list, or watches all of it.
func listHandler[T any](s *server, d *topic[T]) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) *web.Error {
		q, bad := s.query(r, d.list.path, d.list.params, d.list.states)
		if bad != nil {
			return bad
		}
		return answerList(s, d, w, r, &q)
	}
}

// listLocks is listHandler, with mutexes as they are now where they are asked for.
func (s *server) listLocks(w http.ResponseWriter, r *http.Request) *web.Error {
	q, bad := s.query(r, s.locks.list.path, s.locks.list.params, nil)
	if bad != nil {
		return bad
	}
	if q.wantsMutexes() {
		s.locks.refresh(r.Context())
	}
	return answerList(s, s.locks, w, r, &q)
}

func answerList[T any](s *server, d *topic[T], w http.ResponseWriter, r *http.Request, q *query) *web.Error {
	if _, bad := s.snapshot(); bad != nil {
		return bad
	}
	if q.watch {
		return s.watch.stream(w, r, func(out *stream) error { return d.watch(out, q) })
	}
	snapshot := d.source.Snapshot()
	answer := s.answers(r, q).get(r, snapshot.Version, func(_ context.Context, b *body) *web.Error {
		d.list.page(snapshot, q, s.now())(b)
		return nil
	})
	if d.list.whole != nil { // the time of a status makes each another one
		return answer.send(w, r, mediaJSON)
	}
	return answer.sendTagged(w, r, mediaJSON)
}

// listOwners is listHandler, of the slot of a key where that is asked for.
func (s *server) listOwners(w http.ResponseWriter, r *http.Request) *web.Error {
	q, bad := s.query(r, s.owners.list.path, s.owners.list.params, nil)
	if bad != nil {
		return bad
	}
	if q.slotOf != "" {
		snapshot, bad := s.snapshot()
		if bad != nil {
			return bad
		}
		if q.task, bad = slotTask(snapshot, q.groups, q.slotOf); bad != nil {
			return bad
		}
	}
	return answerList(s, s.owners, w, r, &q)
}

// slotTask is the task that is the slot of a key in the only group.
func slotTask(s *snapshot.Cluster, groups []string, key string) (string, *web.Error) {
	if len(groups) != 1 {
		return "", web.Invalid(api.FieldError{Field: "for", Message: "goes with one group, which has slots"})
	}
	group := groups[0]
	if g := s.Group(group); g != nil && g.Slots > 0 {
		return tasks.SlotKey(group, key, g.Slots), nil
	}
	return "", web.Invalid(api.FieldError{Field: "for", Message: fmt.Sprintf("group %q has no slots", group)})
}

func (s *server) listEvents(w http.ResponseWriter, r *http.Request) *web.Error {
	q, bad := s.query(r, eventsPath, eventParams, nil)
	if bad != nil {
		return bad
	}
	if isOdd(q.page.Key) { // the store is asked for it
		return web.Invalid(api.FieldError{Field: "continue", Message: errToken.Error()})
	}
	if q.watch {
		return s.watch.stream(w, r, func(out *stream) error { return s.feed.watch(out, &q, s.now) })
	}
	return s.shares.of(r).read.get(r, 0, func(ctx context.Context, b *body) *web.Error {
		list, err := s.feed.log.page(ctx, &q, s.now(), answerPatience)
		if errors.Is(err, errBusy) {
			return busy()
		}
		if err != nil {
			if q.page.Key != "" {
				return web.Unavailable(
					api.ReasonStoreUnreachable, "the store does not answer, and older events are only there",
				)
			}
			list = s.feed.log.stale(&q)
		}
		listLines(each(list.Items), list.Continue, list.Stale)(b)
		return nil
	}).sendTagged(w, r, mediaJSON)
}

func (s *server) task(w http.ResponseWriter, r *http.Request) *web.Error {
	snapshot, t, bad := s.findTask(r)
	if bad != nil {
		return bad
	}
	return sendOne(w, r, snapshot, shownTask(t, outputHidden(r) != nil))
}

// sendOne answers with one object of a snapshot.
func sendOne[T any](w http.ResponseWriter, r *http.Request, s *snapshot.Cluster, item *T) *web.Error {
	return sendJSON(w, r, api.One[*T]{Item: item, Stale: s.Status.Stale})
}

func (s *server) findTask(r *http.Request) (*snapshot.Cluster, *api.Task, *web.Error) {
	snapshot, bad := s.snapshot()
	if bad != nil {
		return nil, nil, bad
	}
	key := r.PathValue("group") + "/" + r.PathValue("name")
	t := snapshot.Task(key)
	if t == nil {
		return nil, nil, web.NotFound("no task %q is declared", key)
	}
	return snapshot, t, nil
}

// oneOf answers with the object that the path names. unknown says that there is none of that name.
func oneOf[T any](s *server, find func(*snapshot.Cluster, string) *T, unknown string) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) *web.Error {
		snapshot, bad := s.snapshot()
		if bad != nil {
			return bad
		}
		name := r.PathValue("name")
		item := find(snapshot, name)
		if item == nil {
			return web.NotFound(unknown, name)
		}
		return sendOne(w, r, snapshot, item)
	}
}

// runs answers with the last runs of a task.
func (s *server) runs(source snapshot.RunSource) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) *web.Error {
		_, t, bad := s.findTask(r)
		if bad != nil {
			return bad
		}
		public, hidden := !accessOf(r.Context()).Trusted, outputHidden(r) != nil
		return s.shares.of(r).read.get(r, 0, func(ctx context.Context, b *body) *web.Error {
			if s.lists.turn(ctx, public, answerPatience) != nil {
				return busy()
			}
			return writeRuns(ctx, b, source, t.Key, hidden)
		}).send(w, r, mediaJSON)
	}
}

func writeRuns(ctx context.Context, b *body, source snapshot.RunSource, key string, hidden bool) *web.Error {
	var list api.List[api.Run]
	if source != nil {
		ctx, cancel := context.WithTimeout(ctx, eventTimeout)
		defer cancel()
		runs, err := source.Runs(ctx, key)
		if err != nil {
			return web.Unavailable(
				api.ReasonStoreUnreachable, "the store does not answer, and runs are only there",
			)
		}
		list.Items = shownRuns(runs, hidden)
	}
	b.value(list)
	return nil
}

// whoami answers with who asks.
func whoami(w http.ResponseWriter, r *http.Request) *web.Error {
	caller := api.Caller{Role: api.RoleNone}
	if a := accessOf(r.Context()); a.Caller != nil {
		var bad *web.Error
		if caller, bad = a.Caller(); bad != nil {
			return bad
		}
	}
	return sendJSON(w, r, caller)
}

// metrics answers with the metrics.
func (s *server) metrics(x *exposition) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) *web.Error {
		leave, bad := enter(s.shares.of(r).scraping, r, api.ReasonTooManyRequests, "requests for metrics are answered")
		if bad != nil {
			return bad
		}
		defer leave()
		return x.now().send(w, r, string(metricsFormat))
	}
}

// health answers whether this replica is alive and whether it takes part.
type health struct {
	source       snapshot.Source
	alive, ready func() error // nil: always alive; ready as soon as it takes part
}

// livez says that the process answers and that its loops turn. It never asks the store: a replica must not be restarted
// because the store is unreachable.
func (h health) livez(w http.ResponseWriter, r *http.Request) *web.Error {
	if h.alive != nil {
		if err := h.alive(); err != nil {
			return web.Unavailable(api.ReasonNotAlive, "not alive: %v", err)
		}
	}
	return sendText(w, r, mediaText, "ok\n")
}

// readyz says whether this replica takes part: started and not draining, and with the application that it needs. A
// store that is unreachable does not change it.
func (h health) readyz(w http.ResponseWriter, r *http.Request) *web.Error {
	err := h.snapshotReady()
	if err == nil && h.ready != nil {
		err = h.ready()
	}
	if err != nil {
		return web.Unavailable(api.ReasonNotReady, "not ready: %v", err)
	}
	return sendText(w, r, mediaText, "ok\n")
}

func (h health) snapshotReady() error {
	snapshot := h.source.Snapshot()
	switch {
	case snapshot == nil:
		return errors.New("starting")
	case snapshot.Status.Draining:
		return errors.New("draining")
	case !snapshot.Status.Ready:
		return errors.New("starting")
	default:
		return nil
	}
}

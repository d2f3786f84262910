package status

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/shardctl/shardctl/internal/httperr"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

// status answers with the cluster on one screen.
func (s *server) status(w http.ResponseWriter, r *http.Request) *Error {
	q, bad := s.query(r, s.statuses.list.path, nil, nil)
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
		q, bad := s.query(r, d.list.path, d.list.params, d.list.states)
		if bad != nil {
			return bad
		}
		return answerList(s, d, w, r, &q)
	}
}

// listLocks is list, with mutexes as they are now where they are asked for.
func (s *server) listLocks(w http.ResponseWriter, r *http.Request) *Error {
	q, bad := s.query(r, s.locks.list.path, s.locks.list.params, nil)
	if bad != nil {
		return bad
	}
	if q.wantsMutexes() {
		s.locks.refresh(r.Context())
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
		return writeLines(out, d.list.page(snapshot, q, s.now()))
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
func answerOne[T any](w http.ResponseWriter, s *snapshot.Cluster, item *T) *Error {
	writeJSON(w, api.One[*T]{Item: item, Stale: s.Status.Stale})
	return nil
}

func (s *server) findTask(r *http.Request) (*snapshot.Cluster, *api.Task, *Error) {
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

// health answers whether this replica is alive and whether it takes part.
type health struct {
	source       Source
	alive, ready func() error // nil: always alive; ready as the newest snapshot says
}

// livez says that the process answers and that its loops turn. It never asks the store: a replica must not be restarted
// because the store is unreachable.
func (h health) livez(w http.ResponseWriter, _ *http.Request) *Error {
	if h.alive != nil {
		if err := h.alive(); err != nil {
			return httperr.Unavailable(api.ReasonNotAlive, "not alive: %v", err)
		}
	}
	writeText(w, "ok\n")
	return nil
}

// readyz says whether this replica takes part: started and not draining. A store that is unreachable does not change
// it.
func (h health) readyz(w http.ResponseWriter, _ *http.Request) *Error {
	ready := h.ready
	if ready == nil {
		ready = h.snapshotReady
	}
	if err := ready(); err != nil {
		return httperr.Unavailable(api.ReasonNotReady, "not ready: %v", err)
	}
	writeText(w, "ok\n")
	return nil
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

// openAPI is made by TestOpenAPIIsGenerated, from the routes, the changes and the types of package api.
//
//go:generate go test -run ^TestOpenAPIIsGenerated$ -update
//go:embed openapi.json
var openAPI []byte

// openAPIOfReads is the description without changes.
var openAPIOfReads = sync.OnceValues(func() ([]byte, error) {
	var doc map[string]json.RawMessage
	var paths map[string]map[string]json.RawMessage
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		return nil, fmt.Errorf("openapi.json: %w", err)
	}
	if err := json.Unmarshal(doc["paths"], &paths); err != nil {
		return nil, fmt.Errorf("openapi.json: paths: %w", err)
	}
	for path, methods := range paths {
		if _, changes := methods["post"]; changes {
			delete(paths, path)
		}
	}
	reads, err := json.Marshal(paths)
	if err != nil {
		return nil, fmt.Errorf("openapi.json: paths: %w", err)
	}
	doc["paths"] = reads
	return json.MarshalIndent(doc, "", " ")
})

// openapi describes what the listener takes that was asked: changes only where they are taken.
func openapi(w http.ResponseWriter, r *http.Request) *Error {
	text := openAPI
	if TakenBy(r) == ChangesNone {
		var err error
		if text, err = openAPIOfReads(); err != nil {
			return internal(err)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the reader is gone
	return nil
}

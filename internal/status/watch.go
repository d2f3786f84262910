package status

import (
	"net/http"

	"github.com/go-logr/logr"
)

// watchers is what all watchers share.
type watchers struct {
	source Source
	log    logr.Logger
	slots  chan struct{} // one for each connection
	budget *budget
}

// stream sends server-sent events as long as run goes on. Its errors end the connection: the reader comes again and
// begins with a snapshot.
func (w *watchers) stream(rw http.ResponseWriter, r *http.Request, run func(*stream) error) *Error {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	default:
		return unavailable(ReasonTooManyWatchers, "%d connections watch already; try again later", cap(w.slots))
	}
	h := rw.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies that buffer would hold changes back
	rw.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	out, end := newStream(rw, r)
	defer end()
	defer w.budget.keep(out)
	if err := run(out); err != nil && r.Context().Err() == nil {
		w.log.V(1).Info("A watcher was dropped", "path", r.URL.Path, "error", err.Error())
	}
	return nil
}

// follow calls step with each snapshot and the one before it (nil at first), at most once in watchPace.
func (w *watchers) follow(out *stream, step func(before, after *Snapshot) error) error {
	var before *Snapshot
	for {
		changed := w.source.Changed()
		after := w.source.Snapshot()
		if after != before {
			w.budget.keep(out, before, after)
			if err := step(before, after); err != nil {
				return err
			}
			if err := out.flush(); err != nil {
				return err
			}
			w.budget.keep(out, after)
			before = after
		}
		if err := out.wait(changed, 0); err != nil {
			return err
		}
		if err := out.wait(nil, watchPace); err != nil {
			return err
		}
	}
}

func (w *watchers) status(out *stream) error {
	return w.follow(out, func(before, after *Snapshot) error {
		kind := "upsert"
		switch {
		case before == nil:
			kind = "snapshot"
		case sameStatus(&before.Status, &after.Status):
			return nil
		}
		l, err := statusLines(&after.Status)
		if err != nil {
			return err
		}
		return out.sendLines(kind, "", l)
	})
}

func watchList[T any](w *watchers, d *differ[T], q *query, out *stream) error {
	defer func() {
		w.budget.keep(out)
		if w.budget.idle() {
			d.forget()
		}
	}()
	return w.follow(out, func(before, after *Snapshot) error {
		if before == nil {
			return out.sendLines("snapshot", "", listLines(d.matching(after, q), "", after.Status.Stale))
		}
		for _, c := range d.between(before, after) {
			var err error
			switch {
			case c.after != nil && d.match(q, c.after):
				err = out.send("upsert", "", c.after)
			case c.before != nil && d.match(q, c.before):
				err = out.send("delete", "", c.before)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

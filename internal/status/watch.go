package status

import (
	"net/http"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/access"
	"github.com/shardctl/shardctl/pkg/api"
)

// watchers is what all watchers share.
type watchers struct {
	log    logr.Logger
	slots  *access.InFlight
	budget *budget
}

// stream sends server-sent events as long as run goes on. Its errors end the connection: the reader comes again and
// begins with a snapshot.
func (w *watchers) stream(rw http.ResponseWriter, r *http.Request, run func(*stream) error) *Error {
	leave, bad := enter(w.slots, r, api.ReasonTooManyWatchers, "connections watch")
	if bad != nil {
		return bad
	}
	defer leave()
	stopAnswering(r)
	h := rw.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies that buffer would hold changes back
	zipped := takesGzip(r.Header.Get("Accept-Encoding"))
	if zipped {
		h.Set("Content-Encoding", "gzip")
	}
	rw.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	out, end := newStream(rw, r, zipped)
	defer end()
	if err := run(out); err != nil && r.Context().Err() == nil {
		w.log.V(1).Info("A watcher was dropped", "path", r.URL.Path, "error", out.why(err).Error())
	}
	return nil
}

// begin sends an opening.
func (w *watchers) begin(out *stream, o *opening) error {
	w.budget.keep(out, o)
	defer w.budget.done(out, o)
	if err := out.packed(o.text); err != nil {
		return err
	}
	return out.flush()
}

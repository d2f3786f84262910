package status

import (
	"errors"
	"net/http"

	"github.com/shardctl/shardctl/internal/httperr"
	"github.com/shardctl/shardctl/pkg/api"
)

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

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the reader is gone
}

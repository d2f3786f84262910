package status

import (
	"errors"
	"net/http"
)

// livez says that the process answers. It never asks the store: a replica must not be restarted because the store is
// away.
func (s *server) livez(w http.ResponseWriter, _ *http.Request) *Error {
	if s.Live != nil {
		if err := s.Live(); err != nil {
			return unavailable("NotAlive", "not alive: %v", err)
		}
	}
	writeText(w, "ok\n")
	return nil
}

// readyz says whether this replica takes part: started and not draining. A store that is away does not change it.
func (s *server) readyz(w http.ResponseWriter, _ *http.Request) *Error {
	ready := s.Ready
	if ready == nil {
		ready = s.snapshotReady
	}
	if err := ready(); err != nil {
		return unavailable(ReasonNotReady, "not ready: %v", err)
	}
	writeText(w, "ok\n")
	return nil
}

func (s *server) snapshotReady() error {
	snapshot := s.Source.Snapshot()
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
	_, _ = w.Write([]byte(text)) //nolint:gosec // plain text, said so, and nosniff stands; the reader is gone: nobody is left to tell
}

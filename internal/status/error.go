package status

import (
	"encoding/json"
	"net/http"

	"github.com/shardctl/shardctl/internal/httperr"
	"github.com/shardctl/shardctl/pkg/api"
)

// Error is what to answer instead of what was asked for.
type Error = httperr.Error

// internal is the answer where err is not nil.
func internal(err error) *Error {
	if err == nil {
		return nil
	}
	return httperr.New(http.StatusInternalServerError, api.ReasonInternal, "%v", err)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the reader is gone
}

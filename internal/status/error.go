package status

import (
	"encoding/json"
	"net/http"

	"github.com/shardctl/shardctl/internal/httperr"
)

// Error is what to answer instead of what was asked for.
type Error = httperr.Error

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the reader is gone
}

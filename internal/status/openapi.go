package status

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

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

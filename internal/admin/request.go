package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// maxBody is how large the body of a request may be, in bytes.
const maxBody = 64 << 10

// readBody reads a request for a change. One without a body asks for nothing beyond its path.
func readBody(w http.ResponseWriter, r *http.Request) (api.ChangeRequest, *web.Error) {
	var b api.ChangeRequest
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return b, web.NewError(
			http.StatusRequestEntityTooLarge, api.ReasonTooLarge, "the body has more than %d bytes", maxBody,
		)
	case err != nil:
		return b, badBody("body", err.Error())
	case len(bytes.TrimSpace(text)) == 0:
		return b, nil
	}
	if bad := exact(text); bad != nil {
		return b, bad
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return b, badBody("body", err.Error())
	}
	return b, nil
}

// exact refuses what encoding/json would read as something else: names in other cases of letters, and null. A request
// whose dryRun is null must not be taken for one in earnest.
func exact(text []byte) *web.Error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return badBody("body", err.Error())
	}
	if fields == nil {
		return badBody("body", "null: want an object")
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(bodyFields, name) {
			return badBody("body", "unknown field "+name+"; want some of "+strings.Join(bodyFields, ", "))
		}
		var list []json.RawMessage
		_ = json.Unmarshal(fields[name], &list) // of lists; what is wrong with others is found later
		if isNull(fields[name]) || slices.ContainsFunc(list, isNull) {
			return badBody(name, "null: give a value, or leave the field out")
		}
	}
	return nil
}

func isNull(value json.RawMessage) bool { return string(bytes.TrimSpace(value)) == "null" }

func badBody(field, message string) *web.Error {
	return web.Invalid(api.FieldError{Field: field, Message: message})
}

// bodyFields are the names that a body may hold.
var bodyFields = func() []string {
	var names []string
	for field := range reflect.TypeFor[api.ChangeRequest]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}()

// selected are the keys of the tasks that the body selects, as they are declared now.
func (c Config) selected(_ *http.Request, b api.ChangeRequest) ([]string, *web.Error) {
	if b.Group == "" && len(b.Tasks) == 0 && strings.TrimSpace(b.Selector) == "" {
		return nil, web.Invalid(
			api.FieldError{Field: "tasks", Message: "want group, tasks or selector, to say which"},
		)
	}
	selector, err := snapshot.ParseSelector(b.Selector)
	if err != nil {
		return nil, web.Invalid(api.FieldError{Field: "selector", Message: err.Error()})
	}
	which := snapshot.Selection{Group: b.Group, Patterns: b.Tasks, Selector: selector}
	if err := which.Validate(); err != nil {
		return nil, web.Invalid(api.FieldError{Field: "tasks", Message: err.Error()})
	}
	s := c.Source.Snapshot()
	if s == nil {
		return nil, web.Unavailable(
			api.ReasonNotReady, "nothing is known of the cluster yet; try again in a moment",
		)
	}
	keys := s.Select(which)
	if len(keys) == 0 {
		return nil, web.NotFound("no declared task matches")
	}
	return keys, nil
}

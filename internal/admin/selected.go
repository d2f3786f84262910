package admin

import (
	"net/http"
	"strings"

	"github.com/shardctl/shardctl/internal/httperr"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

// selected are the keys of the tasks that the body selects, as they are declared now.
func (c Config) selected(_ *http.Request, b api.ChangeRequest) ([]string, *httperr.Error) {
	if b.Group == "" && len(b.Tasks) == 0 && strings.TrimSpace(b.Selector) == "" {
		return nil, httperr.Invalid(
			api.FieldError{Field: "tasks", Message: "want group, tasks or selector, to say which"},
		)
	}
	selector, err := status.ParseSelector(b.Selector)
	if err != nil {
		return nil, httperr.Invalid(api.FieldError{Field: "selector", Message: err.Error()})
	}
	which := status.Selection{Group: b.Group, Patterns: b.Tasks, Selector: selector}
	if err := which.Validate(); err != nil {
		return nil, httperr.Invalid(api.FieldError{Field: "tasks", Message: err.Error()})
	}
	s := c.Source.Snapshot()
	if s == nil {
		return nil, httperr.Unavailable(
			api.ReasonNotReady, "nothing is known of the cluster yet; try again in a moment",
		)
	}
	keys := s.Select(which)
	if len(keys) == 0 {
		return nil, httperr.NotFound("no declared task matches")
	}
	return keys, nil
}

package client

import (
	"fmt"
	"net/http"

	"github.com/shardctl/shardctl/pkg/api"
)

// What errors.Is asks for most. For any other reason ask for &api.Error{Reason: …}.
var (
	ErrNotFound     error = &api.Error{Reason: api.ReasonNotFound}            // no such task, group or instance
	ErrUnauthorized error = &api.Error{Reason: api.ReasonUnauthorized}        // no token, or one that is not known
	ErrForbidden    error = &api.Error{Reason: api.ReasonForbidden}           // the token's role does not allow it
	ErrRefused      error = &api.Error{Status: http.StatusConflict}           // a cap or a state forbids the change
	ErrUnavailable  error = &api.Error{Status: http.StatusServiceUnavailable} // try again, after RetryAfter
)

// RefusedError says that a change was refused for some of the tasks that were selected, or for all. What holds for the
// others is in the result. It is an [*api.Error] for each, so errors.Is finds [ErrRefused], [ErrNotFound] and reasons.
type RefusedError struct{ Refused []api.Refusal }

// Error names the first of them.
func (e *RefusedError) Error() string {
	if len(e.Refused) == 0 {
		return "refused"
	}
	first := e.Refused[0]
	text := fmt.Sprintf("refused: %s: %s (%s)", first.Name, first.Message, first.Reason)
	if more := len(e.Refused) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Unwrap is an [*api.Error] for each refusal.
func (e *RefusedError) Unwrap() []error {
	all := make([]error, len(e.Refused))
	for i, r := range e.Refused {
		status := http.StatusConflict
		if r.Reason == api.ReasonNotFound {
			status = http.StatusNotFound
		}
		all[i] = &api.Error{
			Type: "about:blank", Title: http.StatusText(status), Status: status, Reason: r.Reason,
			Detail: r.Name + ": " + r.Message,
		}
	}
	return all
}

// errExpired says that a list cannot be continued any more.
var errExpired error = &api.Error{Status: http.StatusGone}

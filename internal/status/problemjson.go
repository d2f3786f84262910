package status

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// Error is an answer that is not what was asked for: the body of an application/problem+json (RFC 9457). The client
// returns it for every status from 400 up, so callers reach it with errors.As.
type Error struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Reason string       `json:"reason"` // one word in PascalCase, for programs
	Errors []FieldError `json:"errors,omitempty"`

	allow      string
	retryAfter int // seconds
}

// FieldError is one thing wrong with what was sent.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// The reasons of errors.
const (
	ReasonInvalid          = "Invalid"          // 400
	ReasonNotFound         = "NotFound"         // 404
	ReasonMethodNotAllowed = "MethodNotAllowed" // 405
	ReasonExpired          = "Expired"          // 410: begin the list again
	ReasonNotReady         = "NotReady"         // 503
	ReasonStoreUnreachable = "StoreUnreachable" // 503
	ReasonOwnerUnreachable = "OwnerUnreachable" // 503
	ReasonTooManyWatchers  = "TooManyWatchers"  // 503
)

// Error implements error.
func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s (%d)", e.Title, e.Status)
	}
	return e.Detail
}

func problem(status int, reason, format string, args ...any) *Error {
	return &Error{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Reason: reason,
		Detail: fmt.Sprintf(format, args...),
	}
}

func invalid(errs ...FieldError) *Error {
	e := problem(http.StatusBadRequest, ReasonInvalid, "%s: %s", errs[0].Field, errs[0].Message)
	e.Errors = errs
	return e
}

func notFound(format string, args ...any) *Error {
	return problem(http.StatusNotFound, ReasonNotFound, format, args...)
}

func unavailable(reason, format string, args ...any) *Error {
	e := problem(http.StatusServiceUnavailable, reason, format, args...)
	e.retryAfter = 1
	return e
}

func (e *Error) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if e.allow != "" {
		h.Set("Allow", e.allow)
	}
	if e.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(e) // the reader is gone
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the reader is gone
}

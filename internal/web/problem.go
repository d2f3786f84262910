package web

import (
	"fmt"
	"net/http"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// Error is what to answer instead of what was asked for, with the headers that go with it: application/problem+json
// (RFC 9457).
type Error struct {
	api.Error

	Allow     string `json:"-"` // methods, of a 405
	Challenge string `json:"-"` // how to authenticate, of a 401
}

// NewError makes an error. status is that of HTTP, reason one word.
func NewError(status int, reason, format string, args ...any) *Error {
	return &Error{Error: *api.NewError(status, reason, fmt.Sprintf(format, args...))}
}

// Invalid names at least one wrong field: 400.
func Invalid(errs ...api.FieldError) *Error {
	e := NewError(http.StatusBadRequest, api.ReasonInvalid, "%s: %s", errs[0].Field, errs[0].Message)
	e.Errors = errs
	return e
}

// NotFound is 404.
func NotFound(format string, args ...any) *Error {
	return NewError(http.StatusNotFound, api.ReasonNotFound, format, args...)
}

// Unavailable is 503, to be tried again in a second.
func Unavailable(reason, format string, args ...any) *Error {
	e := NewError(http.StatusServiceUnavailable, reason, format, args...)
	e.RetryAfter = time.Second
	return e
}

// NotAllowed is 405, with the methods that are allowed.
func NotAllowed(allow, format string, args ...any) *Error {
	e := NewError(http.StatusMethodNotAllowed, api.ReasonMethodNotAllowed, format, args...)
	e.Allow = allow
	return e
}

// Write answers with the error.
func (e *Error) Write(w http.ResponseWriter) {
	if e.Allow != "" {
		w.Header().Set("Allow", e.Allow)
	}
	if e.Challenge != "" {
		w.Header().Set("WWW-Authenticate", e.Challenge)
	}
	e.Error.Write(w)
}

// Handler answers a request, or returns what to answer instead.
type Handler func(w http.ResponseWriter, r *http.Request) *Error

// ServeHTTP implements [http.Handler].
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h(w, r); err != nil {
		err.Write(w)
	}
}

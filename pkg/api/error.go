package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Error is an answer that is not what was asked for: the body of an application/problem+json (RFC 9457). The client
// returns it for every status from 300 up, as *Error, so callers reach it with errors.As.
type Error struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"` // of HTTP
	Detail string       `json:"detail"` // a sentence for people
	Reason string       `json:"reason"` // one word in PascalCase, for programs; empty: the answer is not of shardctl
	Errors []FieldError `json:"errors,omitempty"`

	// RetryAfter is when it makes sense to ask again, of a 429 or a 503; 0: not said.
	RetryAfter time.Duration `json:"-"`
}

// FieldError is one thing wrong with what was sent.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// The reasons of errors. Those of a 409 are the reasons of refusals.
const (
	ReasonInvalid          = "Invalid"          // 400
	ReasonUnauthorized     = "Unauthorized"     // 401
	ReasonForbidden        = "Forbidden"        // 403: the token's role, or the origin
	ReasonNotFound         = "NotFound"         // 404
	ReasonMethodNotAllowed = "MethodNotAllowed" // 405
	ReasonExpired          = "Expired"          // 410: begin the list again
	ReasonTooLarge         = "TooLarge"         // 413
	ReasonUnsupportedMedia = "UnsupportedMedia" // 415
	ReasonMisdirected      = "Misdirected"      // 421: not the name of this listener
	ReasonTooManyFailures  = "TooManyFailures"  // 429: wrong tokens
	ReasonTooManyRequests  = "TooManyRequests"  // 429: of one client; 503: of all
	ReasonInternal         = "Internal"         // 500
	ReasonNotReady         = "NotReady"         // 503: the replica knows nothing of the cluster yet
	ReasonNotAlive         = "NotAlive"         // 503: of /livez
	ReasonStoreUnreachable = "StoreUnreachable" // 503
	ReasonOwnerUnreachable = "OwnerUnreachable" // 503: the task's owner cannot be asked
	ReasonNotOwned         = "NotOwned"         // 503: the key has no owner to forward a request to
	ReasonNoAddress        = "NoAddress"        // 503: its owner has given no address for requests
	ReasonOwnerFailed      = "OwnerFailed"      // 502: the owner did not answer; the request may have been carried out
	ReasonOwnerTimeout     = "OwnerTimeout"     // 504: as OwnerFailed, the time is over
	ReasonTooManyHops      = "TooManyHops"      // 508: forwarded again and again
	ReasonTooManyWatchers  = "TooManyWatchers"  // 429: of one client; 503: of all
)

// Error is the sentence for people.
func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s (%d)", e.Title, e.Status)
	}
	return e.Detail
}

// Is makes errors.Is compare by kind: the target is an *Error, whose status and reason hold where they are given. So
//
//	errors.Is(err, &api.Error{Reason: api.RefusedNoCapacity})
//
// says whether a change was refused because the instance owns as many as it may.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && (t.Status != 0 || t.Reason != "") &&
		(t.Status == 0 || t.Status == e.Status) && (t.Reason == "" || t.Reason == e.Reason)
}

// NewError makes an error that is no more than its status: its type is about:blank. reason is one word, and detail a
// sentence for people.
func NewError(status int, reason, detail string) *Error {
	return &Error{Type: "about:blank", Title: http.StatusText(status), Status: status, Reason: reason, Detail: detail}
}

// Write answers a request with the error.
func (e *Error) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(e) // who asked may have gone
}

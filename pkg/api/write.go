package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

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

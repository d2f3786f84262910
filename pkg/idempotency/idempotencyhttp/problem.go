package idempotencyhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/shardctl/shardctl/pkg/idempotency"
)

// problem is the details of RFC 9457.
type problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`

	retry bool // sending the same again may help
}

// problemOf is what a caller is told of an error of idempotency.Guard.Do. within says that the record is in a
// transaction with the work.
func problemOf(err error, within bool) problem {
	switch {
	case errors.Is(err, idempotency.ErrReplyTooLarge) && within:
		return problem{
			Title: "The reply is too large to be kept", Status: http.StatusInternalServerError,
			Detail: fmt.Sprintf("Nothing was done. Of a reply at most %d bytes can be kept.", idempotency.MaxReply),
		}
	case errors.Is(err, idempotency.ErrMismatch):
		return problem{
			Title: "Idempotency-Key is already used", Status: http.StatusUnprocessableEntity,
			Detail: "This key was sent with another request. Use a new key for a new request.",
		}
	case errors.Is(err, idempotency.ErrInProgress):
		return problem{
			Title: "A request is outstanding for this Idempotency-Key", Status: http.StatusConflict,
			Detail: "A request with this key is being worked on. Send it again later.", retry: true,
		}
	case errors.Is(err, idempotency.ErrReplyTooLarge):
		return problem{
			Title: "The reply for this Idempotency-Key was too large to be kept", Status: http.StatusConflict,
			Detail: fmt.Sprintf("The request was done. Of its reply at most %d bytes can be kept.",
				idempotency.MaxReply),
		}
	case errors.Is(err, idempotency.ErrFailed), errors.Is(err, idempotency.ErrTakenOver):
		return problem{
			Title: "The request with this Idempotency-Key did not end", Status: http.StatusConflict,
			Detail: "It failed, or its server died half way. It may have had an effect, and is not tried again.",
		}
	}
	return problem{
		Title: "The request could not be looked up", Status: http.StatusServiceUnavailable,
		Detail: "It may or may not have been worked on. Send it again with the same key.", retry: true,
	}
}

// write answers with the problem, and with a link to what is documented.
func (p problem) write(w http.ResponseWriter, docs string) {
	h := w.Header()
	if docs != "" {
		p.Type = docs
		h.Set("Link", "<"+docs+`>; rel="describedby"`)
	}
	if p.retry {
		h.Set("Retry-After", "1")
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Language", "en")
	body, err := json.Marshal(p)
	if err != nil {
		http.Error(w, p.Title, p.Status)
		return
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

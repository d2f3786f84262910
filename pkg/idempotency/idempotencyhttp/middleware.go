// Package idempotencyhttp is a middleware for net/http that does the work of a request once, by the header
// Idempotency-Key of draft-ietf-httpapi-idempotency-key-header.
//
// A client sends the same key with each repetition of a request:
//
//	Idempotency-Key: "8e03978e-40d5-43e8-bc93-6894a57f9324"
//
// The value is a string as RFC 8941, section 3.3.3, has them. Tasks and subscriptions of shardctl send theirs without
// quotes, and are taken as well. The answers, beside those of the handler:
//
//	400  the header is missing where it is required, is sent twice, or is no such string
//	403  Options.Caller has no name for the caller
//	409  another call is at work on the request, or it failed before and may have had an effect
//	413  the body is larger than Options.MaxBody
//	422  the key was used for another request
//	503  the database did not answer
//
// They are problem details (RFC 9457). A reply that was kept before has the header Idempotent-Replayed: true.
//
// The handler's context does not end when the client gives up: the work is done once, and its reply is kept for the
// repetition.
//
// A reply is sent once it is kept. So it is gathered in memory, and the handler cannot stream, hijack or push.
//
// The handler sees the response header as outer middleware has left it. What it changes is kept; what outer middleware
// has set is not, and is made anew for each repetition. So a session's cookie reaches its own caller alone.
package idempotencyhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/shardctl/shardctl/internal/httpkeep"
	"github.com/shardctl/shardctl/pkg/idempotency"
)

// DefaultMaxBody is the default of [Options.MaxBody].
const DefaultMaxBody = 1 << 20

// Options are what the middleware can do. Guard is required, and one of Caller and OneCaller.
type Options struct {
	Guard *idempotency.Guard
	// Required answers 400 to a request without a key; else it is worked on as if there was no middleware.
	Required bool
	// Methods are those that need it; empty: POST and PATCH. Others pass.
	Methods []string
	// Caller names who sends a request, such as a user or a tenant. The keys of two callers never meet, so no one gets
	// the reply of another. It is called before the body is read. A request with a key whose caller has no name, "", is
	// answered with 403, since all callers without one would be the same: authentication stands before the middleware.
	Caller func(*http.Request) string
	// OneCaller says instead that all callers are one: any sender of a key gets the reply that is kept under it.
	OneCaller bool
	// MaxBody is how many bytes the body of a request may have: all of it is read for the fingerprint. 0:
	// DefaultMaxBody.
	MaxBody int64
	// Unquoted takes keys without quotes as well, as many clients send them: letters, digits and -_.:~ Those of tasks
	// and subscriptions of shardctl need no option.
	Unquoted bool
	// Docs is the URL of a page that says how to use keys here; problems link to it.
	Docs string
	// Failed says which replies of the handler are failures: 500 and above when nil. In a transaction they are rolled
	// back, and a repetition is worked on. Elsewhere they are kept like all others, unless [NoEffect] was called.
	Failed func(status int) bool
}

// New makes the middleware. The error wraps idempotency.ErrInvalid.
func New(o Options) (func(http.Handler) http.Handler, error) {
	if o.Guard == nil {
		return nil, fmt.Errorf("%w: Guard is nil", idempotency.ErrInvalid)
	}
	if (o.Caller == nil) != o.OneCaller {
		return nil, fmt.Errorf("%w: Caller is set: %t, OneCaller is %t: set Caller, so that no one gets the reply of "+
			"another, or OneCaller, where all callers are one", idempotency.ErrInvalid, o.Caller != nil, o.OneCaller)
	}
	if o.MaxBody < 0 {
		return nil, fmt.Errorf("%w: MaxBody is %d, want 0 or above", idempotency.ErrInvalid, o.MaxBody)
	}
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	if len(o.Methods) == 0 {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if o.Failed == nil {
		o.Failed = func(status int) bool { return status >= http.StatusInternalServerError }
	}
	return func(next http.Handler) http.Handler { return handler{o, next} }, nil
}

// handler is the middleware around one handler.
type handler struct {
	o    Options
	next http.Handler
}

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(h.o.Methods, r.Method) {
		h.next.ServeHTTP(w, r)
		return
	}
	key, err := keyOf(r, h.o.Unquoted)
	switch {
	case errors.Is(err, errMissing) && !h.o.Required:
		h.next.ServeHTTP(w, r)
		return
	case err != nil:
		h.refuse(w, problem{
			Title: "Idempotency-Key " + err.Error(), Status: http.StatusBadRequest,
			Detail: "This operation needs one Idempotency-Key, a string in double quotes.",
		})
		return
	}
	caller := ""
	if !h.o.OneCaller {
		if caller = h.o.Caller(r); caller == "" {
			h.refuse(w, problem{
				Title: "The caller is not known", Status: http.StatusForbidden,
				Detail: "A key belongs to its caller, and this request has none by name. Send it with your credentials.",
			})
			return
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.o.MaxBody))
	if err != nil {
		h.unread(w, err)
		return
	}
	sum, err := fingerprint(r, body)
	if err != nil {
		h.unread(w, err)
		return
	}
	h.serve(w, r, idempotency.Request{ID: idOf(caller, key), Fingerprint: sum}, body)
}

func (h handler) refuse(w http.ResponseWriter, p problem) { p.write(w, h.o.Docs) }

// unread answers a request whose body could not be read.
func (h handler) unread(w http.ResponseWriter, err error) {
	p := problem{Title: "The body could not be read", Status: http.StatusBadRequest, Detail: err.Error()}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		p.Title, p.Status = "The body is too large", http.StatusRequestEntityTooLarge
		p.Detail = fmt.Sprintf("At most %d bytes are allowed.", h.o.MaxBody)
	}
	h.refuse(w, p)
}

// errRolledBack says that the handler's reply is a failure: the transaction is not to be committed.
var errRolledBack = errors.New("the handler's reply is a failure")

// serve works on a request with a key. A client that gives up is waited for no longer until the handler is called. From
// then on no one knows what it has done, so its context goes on.
func (h handler) serve(w http.ResponseWriter, r *http.Request, req idempotency.Request, body []byte) {
	client := r.Context()
	waits, cancel := context.WithCancelCause(context.WithoutCancel(client))
	defer cancel(nil)
	stay := context.AfterFunc(client, func() { cancel(context.Cause(client)) })
	begun := false
	var reply idempotency.Reply // of the handler, also where it is not kept
	answer, err := h.o.Guard.Do(waits, req, func(ctx context.Context) (idempotency.Reply, error) {
		if begun = begun || stay(); !begun {
			return idempotency.Reply{}, idempotency.NoEffect(context.Cause(client))
		}
		reply = idempotency.Reply{}
		rec := newRecorder(w.Header())
		inner := r.Clone(httpkeep.WithNoEffect(ctx, func() { rec.noEffect = true }))
		inner.Body = io.NopCloser(bytes.NewReader(body))
		h.next.ServeHTTP(rec, inner)
		reply = rec.reply()
		switch failed := h.o.Failed(reply.Status); {
		case rec.noEffect:
			return reply, idempotency.NoEffect(errRolledBack)
		case failed && h.o.Guard.Transactional():
			return reply, errRolledBack
		}
		return reply, nil
	})
	switch {
	case err == nil:
		h.send(w, answer)
	case reply.Status != 0 && (errors.Is(err, errRolledBack) || answer.Status != 0):
		h.send(w, reply) // the handler's own, although it is not kept
	default:
		h.refuse(w, problemOf(err, h.o.Guard.Transactional()))
	}
}

// idOf is an ID of the caller's own. The caller is escaped, so that none can pass for another with a key that holds a
// separator.
func idOf(caller, key string) string {
	escaped := url.QueryEscape(caller)
	if len(escaped) > idempotency.MaxID-MaxKey-1 {
		escaped = "=" + idempotency.Fingerprint([]byte(caller)) // no escaped text has this sign
	}
	if len(key) > MaxKey {
		return escaped + "=" + idempotency.Fingerprint([]byte(key))
	}
	return escaped + "/" + key
}

// NoEffect says that the handler of a request did nothing, and that its reply is not to be kept: a repetition is worked
// on. It is for refusals that may not hold later, such as 429. It does nothing for a request without a key.
func NoEffect(r *http.Request) { httpkeep.NoEffect(r.Context()) }

// recorder gathers a reply.
type recorder struct {
	httpkeep.Answer

	outer    http.Header // as it was before the handler
	sent     http.Header // as it was when the status was written
	noEffect bool
}

func newRecorder(outer http.Header) *recorder {
	r := &recorder{outer: outer.Clone()}
	r.Outside(outer)
	r.Begun = func() { r.sent = r.Header().Clone() }
	return r
}

func (r *recorder) Write(p []byte) (int, error) {
	if !r.Said() && r.Header().Get("Content-Type") == "" {
		r.Header().Set("Content-Type", http.DetectContentType(p))
	}
	return r.Answer.Write(p)
}

func (r *recorder) reply() idempotency.Reply {
	r.WriteHeader(http.StatusOK) // where the handler has said nothing
	return idempotency.Reply{Status: r.Status(), Header: changes(r.outer, r.sent), Body: r.Body()}
}

// send answers with a reply. One that was kept by other means than this middleware, or that somebody has edited, may
// have a status that is none, or promise another length.
func (h handler) send(w http.ResponseWriter, reply idempotency.Reply) {
	if reply.Status < http.StatusOK || reply.Status > 999 {
		h.refuse(w, problem{
			Title: "The reply for this Idempotency-Key is none of HTTP", Status: http.StatusConflict,
			Detail: fmt.Sprintf("The request was done. Its reply has the status %d.", reply.Status),
		})
		return
	}
	apply(w.Header(), reply.Header)
	if n := w.Header().Get("Content-Length"); n != "" && n != strconv.Itoa(len(reply.Body)) {
		w.Header().Del("Content-Length")
	}
	if reply.Replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body)
}

// problem is the details of RFC 9457.
type problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`

	retry bool // sending the same again may help
}

// problemOf is what a caller gets of an error of idempotency.Guard.Do. within says that the record is in a
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
		h.Add("Link", "<"+docs+`>; rel="describedby"`)
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

// Package fencehttp is a fence in front of an HTTP handler. It takes the headers that tasks and subscriptions of
// shardctl send, Shardctl-Key and Shardctl-Fencing-Token, and answers an old token with 409.
//
//	var fences fence.Memory
//	http.Handle("/orders", fencehttp.Handler(&fences, orders))
//
// The fence is any of package fence and those beside it. Where it is a transaction, the handler works in that: with
// fencesql it takes fencesql.Tx(r.Context()), and with fencemongo it passes r.Context() on. Then an answer below 400
// commits, and any other rolls back.
//
// The answer is kept in memory until the fence is done with, since no answer may be about what is not committed. So
// handlers cannot stream.
//
// Anyone can write a header, and a token counts as seen before the handler is called. So authentication stands outside
// of the fence: a stranger who is let through to it could keep the owner of a key out by a larger token.
//
// The handler sees the response header as outer middleware has left it, and adds to it or replaces it as without a
// fence. When the fence answers itself, that header goes with its answer.
package fencehttp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"

	"github.com/shardctl/shardctl/internal/httpkeep"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/fence"
)

// The headers of a request.
const (
	HeaderKey   = "Shardctl-Key"
	HeaderToken = "Shardctl-Fencing-Token" //nolint:gosec // a name, no secret
)

// Claim is that of a request's headers: exclusive, as runs of tasks are. The error wraps [fence.ErrInvalid] and names
// the header.
func Claim(header http.Header) (fence.Claim, error) {
	key, err := only(header, HeaderKey)
	if err != nil {
		return fence.Claim{}, err
	}
	text, err := only(header, HeaderToken)
	if err != nil {
		return fence.Claim{}, err
	}
	token, err := strconv.ParseUint(text, 10, 63) // no sign
	if err != nil {
		return fence.Claim{}, fmt.Errorf("%w: %s %.40q: must be a whole number from 1 to %d",
			fence.ErrInvalid, HeaderToken, text, int64(fence.MaxToken))
	}
	c := fence.Exclusive(key, int64(token))
	return c, c.Validate()
}

func only(header http.Header, name string) (string, error) {
	switch all := header.Values(name); len(all) {
	case 1:
		return all[0], nil
	case 0:
		return "", fmt.Errorf("%w: %s: must be set", fence.ErrInvalid, name)
	default:
		return "", fmt.Errorf("%w: %s: is there %d times, must be there once", fence.ErrInvalid, name, len(all))
	}
}

// Reasons of answers, besides [api.ReasonInvalid].
const (
	ReasonOldToken    = "OldToken"    // 409
	ReasonUnavailable = "Unavailable" // 503: the fence failed; the detail says whether the work may count
)

// Option changes what Handler makes.
type Option func(*handler)

// ClaimBy has another function find the claim of a request: of other headers, or a shared one. Its error is answered
// with 400 when it wraps [fence.ErrInvalid].
func ClaimBy(find func(r *http.Request) (fence.Claim, error)) Option {
	return func(h *handler) { h.claim = find }
}

// Handler calls next for requests whose claim passes the fence, one after another for each key. An old token is
// answered with 409, a malformed or missing one with 400, and a failure of the fence with 503, as problem details
// (RFC 9457). Put authentication outside of it: see the package's comment.
func Handler(f fence.Fence, next http.Handler, options ...Option) http.Handler {
	h := &handler{fence: f, next: next, claim: func(r *http.Request) (fence.Claim, error) { return Claim(r.Header) }}
	for _, o := range options {
		o(h)
	}
	return h
}

type handler struct {
	fence fence.Fence
	next  http.Handler
	claim func(r *http.Request) (fence.Claim, error)
}

// errAnswered says that next has answered with a status of 400 or above: its work is not to count.
var errAnswered = errors.New("the handler answered with an error")

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	claim, err := h.claim(r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	var kept httpkeep.Answer
	kept.Outside(w.Header())
	err = h.fence.Do(r.Context(), claim, func(ctx context.Context) error {
		h.next.ServeHTTP(&kept, r.WithContext(ctx))
		if kept.Status() >= http.StatusBadRequest {
			return errAnswered
		}
		return nil
	})
	if err != nil && !errors.Is(err, errAnswered) {
		refuse(w, r, err)
		return
	}
	clear(w.Header()) // the handler may have removed a field
	maps.Copy(w.Header(), kept.Header())
	w.WriteHeader(kept.Status())
	_, _ = w.Write(kept.Body()) // who asked may have gone
}

// refuse answers with a problem. The next owner may send the same request: a middleware round the fence must not keep a
// refusal for it.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, fence.ErrOld) || errors.Is(err, fence.ErrInvalid) || errors.Is(err, fence.ErrFull) {
		httpkeep.NoEffect(r.Context())
	}
	problem(err).Write(w)
}

// problem is what a failure is answered with. What a database says is no business of the client.
func problem(err error) *api.Error {
	switch {
	case errors.Is(err, fence.ErrOld):
		return api.NewError(http.StatusConflict, ReasonOldToken, err.Error())
	case errors.Is(err, fence.ErrInvalid):
		return api.NewError(http.StatusBadRequest, api.ReasonInvalid, err.Error())
	case errors.Is(err, fence.ErrFull):
		return api.NewError(http.StatusServiceUnavailable, ReasonUnavailable,
			"the fence keeps as many keys as it may: nothing was done")
	default:
		return api.NewError(http.StatusServiceUnavailable, ReasonUnavailable,
			"the fence failed: whether the work was done is not known")
	}
}

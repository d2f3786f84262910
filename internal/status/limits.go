package status

import (
	"context"
	"net/http"
	"time"

	"github.com/shardctl/shardctl/internal/access"
	"github.com/shardctl/shardctl/internal/httperr"
	"github.com/shardctl/shardctl/pkg/api"
)

// How many requests are answered at once, those that watch not counted.
const (
	maxAnswers         = 64
	maxAnswersOfClient = 16
)

// watchShare is the part of all watches that one client may have.
const watchShare = 4

// unlimited are answered however many others are: probes must not fail for them, and metrics have a limit of their own.
var unlimited = map[string]bool{"/livez": true, "/readyz": true, "/metrics": true}

type answeringKey struct{}

// limited refuses requests beyond how many are answered at once.
func (s *server) limited(e endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) *Error {
		leave, bad := enter(s.answering, r, api.ReasonTooManyRequests, "requests are answered")
		if bad != nil {
			return bad
		}
		defer leave()
		return e(w, r.WithContext(context.WithValue(r.Context(), answeringKey{}, leave)))
	}
}

// stopAnswering gives back the request's place among those that are answered, since it has one among those that watch.
func stopAnswering(r *http.Request) {
	if leave, ok := r.Context().Value(answeringKey{}).(func()); ok {
		leave()
	}
}

// enter counts the request, until leave is called, or refuses it. what says what too many do.
func enter(f *access.InFlight, r *http.Request, reason, what string) (leave func(), bad *Error) {
	leave, entry := f.Enter(access.Client(r))
	switch entry {
	case access.ClientFull:
		bad = httperr.New(http.StatusTooManyRequests, reason,
			"%d %s already that come from your address, as many as from one; try again later", f.MostOfOne, what)
		bad.RetryAfter = time.Second
	case access.Full:
		bad = httperr.Unavailable(reason, "%d %s already; try again later", f.Most, what)
	case access.Entered:
	}
	return leave, bad
}

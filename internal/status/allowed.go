package status

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// allowedPace is how often streams ask whether who reads them still may.
const allowedPace = time.Second

// errNotAllowed is why streams end whose reader may not read any more.
var errNotAllowed = errors.New("the token is not known any more")

type allowedKey struct{}

// WhileAllowed is r, whose stream ends soon after allowed begins to say no: a token may be taken back while it is read.
// Other answers are over before that. allowed is called from many goroutines, also shortly after the answer has ended.
func WhileAllowed(r *http.Request, allowed func() bool) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), allowedKey{}, allowed))
}

// dropOnceRefused ends the stream once its reader is not allowed to read it any more.
func (s *stream) dropOnceRefused() {
	allowed, ok := s.ctx.Value(allowedKey{}).(func() bool)
	if !ok {
		return
	}
	var ask func()
	ask = func() {
		switch {
		case s.ctx.Err() != nil:
		case !allowed():
			s.drop(errNotAllowed)
		default:
			time.AfterFunc(allowedPace, ask)
		}
	}
	time.AfterFunc(allowedPace, ask)
}

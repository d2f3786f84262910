package status

import (
	"context"
	"net/http"

	"github.com/shardctl/shardctl/internal/httperr"
	"github.com/shardctl/shardctl/pkg/api"
)

type callerKey struct{}

// callerOf says who sent a request, or why that is not said.
type callerOf func(*http.Request) (api.Caller, *httperr.Error)

// WithCaller has next say at /api/v1/whoami what of says of the request.
func WithCaller(next http.Handler, of func(*http.Request) (api.Caller, *httperr.Error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, callerOf(of))))
	})
}

// whoami answers with who asks.
func whoami(w http.ResponseWriter, r *http.Request) *Error {
	caller := api.Caller{Role: api.RoleNone}
	if of, ok := r.Context().Value(callerKey{}).(callerOf); ok {
		var bad *Error
		if caller, bad = of(r); bad != nil {
			return bad
		}
	}
	writeJSON(w, caller)
	return nil
}

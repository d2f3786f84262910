package application

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
)

// What a request may weigh.
const (
	maxSync = 16 << 20 // bytes of a call: 100,000 keys take 8 MB
	// maxClaimed is for how much there is room before it has come, in bytes, whatever the head of a call says.
	maxClaimed = 64 << 10
)

// Reasons of refusals, beside those of package api.
const (
	reasonOtherApplication = "OtherApplication"
	reasonSuperseded       = "Superseded"
	reasonLeaseLost        = "LeaseLost"
)

// Server answers applications.
type Server struct {
	Hub *Hub
	// Token is the secret that requests must bear; nil: none is asked for, as on a socket.
	Token func() (string, error)
	// Owner returns who owns a key; false: it has no owner.
	Owner func(key elect.Key) (cluster.Owner, bool)
}

// Handler is everything under /v1.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]web.Handler{
		"POST /v1/sync":                s.sync,
		"GET /v1/value/{group}/{name}": s.value,
		"PUT /v1/value/{group}/{name}": s.setValue,
		"GET /v1/owner/{group}/{name}": s.owner,
		"GET /v1/status":               s.status,
	} {
		mux.Handle(pattern, s.allowed(h))
	}
	return mux
}

// allowed asks for the token, where there is one.
func (s *Server) allowed(next web.Handler) web.Handler {
	if s.Token == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) *web.Error {
		want, err := s.Token()
		if err != nil {
			return web.Unavailable(api.ReasonStoreUnreachable, "app.tokenFile: %v", err)
		}
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+want)) != 1 {
			e := web.NewError(http.StatusUnauthorized, api.ReasonUnauthorized, "needs the token of app.tokenFile")
			e.Challenge = "Bearer"
			return e
		}
		return next(w, r)
	}
}

func (s *Server) sync(w http.ResponseWriter, r *http.Request) *web.Error {
	var req Request
	if bad := decode(w, r, &req); bad != nil {
		return bad
	}
	running := req.tokens()
	if bad := req.check(running); bad != nil {
		return bad
	}
	a, err := s.Hub.sync(r.Context(), &req, running)
	switch {
	case err != nil:
		return nil // the caller is gone
	case a.refused > 0:
		e := web.NewError(http.StatusConflict, reasonOtherApplication,
			"another process is the application here: it may run for %s still", a.refused.Round(time.Millisecond))
		e.RetryAfter = a.refused
		return e
	case a.dropped:
		return web.NewError(http.StatusConflict, reasonSuperseded, "a newer call has come: act on the reply to that one")
	}
	return write(w, a.reply)
}

// check finds what is wrong with a call that says that keys run under these tokens.
func (r *Request) check(running map[string]int64) *web.Error {
	var wrong []api.FieldError
	bad := func(field, message string) { wrong = append(wrong, api.FieldError{Field: field, Message: message}) }
	if uuid.Validate(r.App) != nil {
		bad("app", "must be a uuid of this process")
	}
	if r.Wait < 0 {
		bad("wait", "must be a number of seconds, 0 or more")
	}
	switch {
	case slices.ContainsFunc(r.Running, func(a Assigned) bool { return a.Key == "" || a.Token <= 0 }):
		bad("running", "each needs a key and its token")
	case len(running) < len(r.Running):
		bad("running", "a key stands there once: "+twice(r.Running)+" does twice")
	}
	for key, load := range r.Load {
		if !(elect.Load{Value: load}).Valid() {
			bad("load", "must be numbers from 0 to 1e15: that of "+key+" is not")
			break
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return web.Invalid(wrong...)
}

// twice is the first key that stands there again.
func twice(all []Assigned) string {
	seen := map[string]bool{}
	for _, a := range all {
		if seen[a.Key] {
			return a.Key
		}
		seen[a.Key] = true
	}
	return ""
}

// assigned is the assignment that a request names by its path and token.
func (s *Server) assigned(r *http.Request) (*assignment, *web.Error) {
	key, bad := keyOf(r)
	if bad != nil {
		return nil, bad
	}
	var token int64
	if err := json.Unmarshal([]byte(r.Header.Get(api.TokenHeader)), &token); err != nil || token <= 0 {
		return nil, web.Invalid(api.FieldError{Field: api.TokenHeader, Message: "must be the fencing token of the key"})
	}
	a := s.Hub.held(key, token)
	if a == nil {
		return nil, web.NewError(http.StatusConflict, reasonLeaseLost, "%s is not assigned under token %d", key, token)
	}
	return a, nil
}

func keyOf(r *http.Request) (elect.Key, *web.Error) {
	group, name := r.PathValue("group"), r.PathValue("name")
	if group == "" || name == "" {
		return "", web.NotFound("a key is GROUP/NAME")
	}
	return elect.NewKey(group, name), nil
}

func (s *Server) value(w http.ResponseWriter, r *http.Request) *web.Error {
	a, bad := s.assigned(r)
	if bad != nil {
		return bad
	}
	value, err := a.Value.Value(r.Context())
	if err != nil {
		return valueError(err)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	// In HTTP/1.0 a value that was cut off would look whole otherwise.
	w.Header().Set("Content-Length", strconv.Itoa(len(value)))
	_, _ = w.Write(value) // the reader is gone
	return nil
}

func (s *Server) setValue(w http.ResponseWriter, r *http.Request) *web.Error {
	a, bad := s.assigned(r)
	if bad != nil {
		return bad
	}
	value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, elect.MaxValue+1))
	if err != nil {
		return tooLarge(elect.MaxValue)
	}
	if err := a.Value.SetValue(r.Context(), value); err != nil {
		return valueError(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func valueError(err error) *web.Error {
	switch {
	case errors.Is(err, elect.ErrTooLarge):
		return tooLarge(elect.MaxValue)
	case errors.Is(err, elect.ErrLeaseLost):
		return web.NewError(http.StatusConflict, reasonLeaseLost, "%v", err)
	}
	return web.Unavailable(api.ReasonStoreUnreachable, "%v", err)
}

func tooLarge(most int) *web.Error {
	return web.NewError(http.StatusRequestEntityTooLarge, api.ReasonTooLarge, "must have at most %d bytes", most)
}

func (s *Server) owner(w http.ResponseWriter, r *http.Request) *web.Error {
	key, bad := keyOf(r)
	if bad != nil {
		return bad
	}
	o, ok := s.Owner(key)
	if !ok {
		return web.NotFound("%s has no owner now", key)
	}
	return write(w, struct {
		Key      elect.Key `json:"key"`
		Instance string    `json:"instance"`
		Address  string    `json:"address"`
		Token    int64     `json:"token"`
	}{key, o.Instance, o.Address, o.Token})
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) *web.Error {
	return write(w, s.Hub.Status())
}

func decode(w http.ResponseWriter, r *http.Request, into any) *web.Error {
	var text bytes.Buffer
	text.Grow(int(min(max(0, r.ContentLength), maxClaimed)) + bytes.MinRead)
	_, err := text.ReadFrom(http.MaxBytesReader(w, r.Body, maxSync))
	if err == nil {
		err = json.Unmarshal(text.Bytes(), into)
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return tooLarge(maxSync)
	case err != nil:
		return web.NewError(http.StatusBadRequest, api.ReasonInvalid, "the body must be JSON: %v", err)
	}
	return nil
}

func write(w http.ResponseWriter, body any) *web.Error {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the reader is gone
	return nil
}

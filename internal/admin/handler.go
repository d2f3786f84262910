// Package admin serves the listener that changes things: what an operator asks for by POST, and everything that
// only reads.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Changer carries out what operators ask for. A replica is one.
type Changer interface {
	// Change decides the request and, unless it is only a preview, has it written and seen by this replica. It wraps
	// [elect.ErrUnavailable] when the store cannot be reached.
	Change(ctx context.Context, r operate.Request, preview bool) (api.ChangeResult, error)
}

// Config is what a handler needs.
type Config struct {
	Read    http.Handler // answers what only reads
	Source  snapshot.Source
	Changer Changer
	Guard   *Guard
	Logger  logr.Logger
}

// New returns the handler of the admin listener.
func New(c Config) http.Handler {
	mux := http.NewServeMux()
	takes := status.ChangesOpen
	if c.Guard.Tokens != nil {
		takes = status.ChangesToken
	}
	mux.Handle("/", c.Guard.grant(c.Read, true, takes))
	for _, route := range verbs.Routes() {
		names := named(route.Scope)
		if route.Many {
			names = c.selected
		}
		mux.Handle(route.Path, postOnly(c.change(route, names)))
	}
	return c.Guard.CheckHost(mux)
}

// postOnly takes POST alone.
func postOnly(h web.Handler) http.Handler {
	return web.Handler(func(w http.ResponseWriter, r *http.Request) *web.Error {
		if r.Method != http.MethodPost {
			return web.NotAllowed(http.MethodPost, "%s changes: use POST", r.URL.Path)
		}
		if r.URL.RawQuery != "" {
			return web.Invalid(api.FieldError{
				Field: "query", Message: "a change takes no parameters; its fields are in the body",
			})
		}
		return h(w, r)
	})
}

// names are what a request is about.
type names func(r *http.Request, b api.ChangeRequest) ([]string, *web.Error)

// named takes them from the path.
func named(scope record.Scope) names {
	return func(r *http.Request, b api.ChangeRequest) ([]string, *web.Error) {
		if b.Group != "" || len(b.Tasks) > 0 || b.Selector != "" {
			return nil, web.Invalid(api.FieldError{
				Field:   "tasks",
				Message: "group, tasks and selector go with /api/v1/tasks/VERB; here the path names what it is about",
			})
		}
		if scope == record.ScopeTask {
			return []string{r.PathValue("group") + "/" + r.PathValue("name")}, nil
		}
		return []string{r.PathValue("name")}, nil
	}
}

// change answers one kind of request.
func (c Config) change(route verbs.Route, names names) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) *web.Error {
		who, bad := c.Guard.Change(r, route.Role)
		if bad != nil {
			return bad
		}
		b, bad := readBody(w, r)
		if bad != nil {
			return bad
		}
		if c.Guard.Tokens == nil && b.By != "" {
			who = b.By
		}
		about, bad := names(r, b)
		if bad != nil {
			return bad
		}
		lasts, err := operate.ParseFor(b.For)
		if err != nil {
			return refusedField(err)
		}
		request := operate.Request{
			Verb: route.Name, Scope: route.Scope, Names: about, To: b.Instance, Strict: b.Strict, For: lasts, By: who,
			Reason: b.Reason, ID: b.ID,
		}
		if err := request.Validate(); err != nil {
			return refusedField(err)
		}
		result, err := c.Changer.Change(r.Context(), request, b.DryRun)
		if !b.DryRun {
			c.audit(r, request, result, err)
		}
		switch {
		case errors.Is(err, elect.ErrUnavailable):
			return web.Unavailable(api.ReasonStoreUnreachable, "the store does not answer: %v", err)
		case err != nil:
			return web.NewError(http.StatusInternalServerError, "Internal", "%v", err)
		}
		return c.answer(w, r, request, b, result)
	}
}

// audit notes who asked for what. What is so already is no change; one that failed may be written in part.
func (c Config) audit(r *http.Request, request operate.Request, result api.ChangeResult, failed error) {
	if failed == nil && len(result.Changed)+len(result.Refused) == 0 {
		return
	}
	log := c.Logger.WithValues("verb", string(request.Verb), "scope", string(request.Scope),
		"names", shortened(request.Names), "to", request.To, "by", request.By, "reason", request.Reason,
		"address", r.RemoteAddr)
	if failed != nil {
		log = log.WithValues("error", failed.Error())
	}
	log.Info("An operator asked for a change", "changed", len(result.Changed), "refused", len(result.Refused))
}

// shortened bounds what a log line holds.
func shortened(names []string) []string {
	const most = 10
	return names[:min(len(names), most)]
}

// answer is the object that was changed, where one is named, or the result.
func (c Config) answer(
	w http.ResponseWriter, r *http.Request, request operate.Request, b api.ChangeRequest, result api.ChangeResult,
) *web.Error {
	single := r.PathValue("name") != ""
	if single && len(result.Refused) > 0 {
		return refusedChange(result.Refused[0])
	}
	code := http.StatusOK
	if verb, _ := verbs.Find(request.Verb); verb.Later && !b.DryRun {
		code = http.StatusAccepted
	}
	var body any = result
	if object := c.object(request); single && !b.DryRun && object != nil {
		body = object
	}
	w.Header().Set("Content-Type", "application/json")
	if single && !b.DryRun && len(result.Changed) == 0 {
		w.Header().Set(api.UnchangedHeader, "true")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the reader is gone
	return nil
}

// object is what the request is about, as it is now; nil: it is not known.
func (c Config) object(request operate.Request) any {
	s := c.Source.Snapshot()
	if s == nil {
		return nil
	}
	switch request.Scope {
	case record.ScopeTask:
		if t := s.Task(request.Names[0]); t != nil {
			return t
		}
	case record.ScopeGroup:
		if g := s.Group(request.Names[0]); g != nil {
			return g
		}
	case record.ScopeInstance:
		if i := s.Instance(request.Names[0]); i != nil {
			return i
		}
	}
	return nil
}

func refusedField(err error) *web.Error {
	if invalid, ok := errors.AsType[*operate.InvalidError](err); ok {
		return web.Invalid(api.FieldError{Field: invalid.Field, Message: invalid.Err.Error()})
	}
	return web.Invalid(api.FieldError{Field: "body", Message: err.Error()})
}

func refusedChange(r api.Refusal) *web.Error {
	if r.Reason == api.ReasonNotFound {
		return web.NotFound("%s", r.Message)
	}
	return web.NewError(http.StatusConflict, r.Reason, "%s: %s", r.Name, r.Message)
}

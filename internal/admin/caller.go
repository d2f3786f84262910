package admin

import (
	"net/http"
	"slices"

	"github.com/shardctl/shardctl/internal/access"
	"github.com/shardctl/shardctl/internal/httperr"
	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

// caller says who sends requests to a listener, and which changes it takes from them. Without tokens, open says
// whether everyone sees what tasks write there.
func (g *Guard) caller(open bool) func(*http.Request) (api.Caller, *httperr.Error) {
	return func(r *http.Request) (api.Caller, *httperr.Error) {
		who, bad := g.identify(r, open)
		if bad != nil {
			return api.Caller{}, bad
		}
		caller := api.Caller{Name: who.Name, Role: api.Role(who.Role.String())}
		if status.TakenBy(r) != status.ChangesNone {
			caller.Verbs = verbsOf(who.Role)
		}
		return caller, nil
	}
}

// identify is who sent a request. A token that is not known is refused, and counts as a failure of its address.
func (g *Guard) identify(r *http.Request, open bool) (access.Identity, *httperr.Error) {
	if !access.SameOrigin(r) {
		return access.Identity{}, httperr.New(
			http.StatusForbidden, api.ReasonForbidden, "who asks is not said to pages of other origins",
		)
	}
	text, given := bearer(r)
	switch {
	case g.Tokens == nil && status.TakenBy(r) != status.ChangesNone:
		return access.Identity{Name: local, Role: access.Admin}, nil
	case g.Tokens == nil && open:
		return access.Identity{Name: local, Role: access.Read}, nil
	case g.Tokens == nil || !given:
		return access.Identity{}, nil
	}
	who, known := g.Tokens.Find(text)
	if !known {
		return access.Identity{}, g.failed(r)
	}
	return who, nil
}

// verbsOf are the changes that a role may ask for.
func verbsOf(has access.Role) []api.Verb {
	verbs := slices.Concat(operate.OfTasks(), operate.OfGroups(), operate.OfInstances())
	verbs = slices.DeleteFunc(verbs, func(v api.Verb) bool { return has < role(v) })
	slices.Sort(verbs)
	return slices.Compact(verbs)
}

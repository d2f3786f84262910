package admin

import (
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/access"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// Guard decides who may ask for what. Its zero value lets everyone in who reaches a listener on loopback.
type Guard struct {
	Hosts  access.Hosts
	Tokens *access.Tokens // nil: none is asked for, and who asks is "local"
	// Instance is the name of this replica: what others vouch for is for it alone.
	Instance string
	Now      func() time.Time

	limit web.Limiter
}

// local is who asks where no token is asked for: only on loopback.
const local = "local"

// CheckHost refuses requests under names that are not the listener's.
func (g *Guard) CheckHost(next http.Handler) http.Handler {
	return web.Handler(func(w http.ResponseWriter, r *http.Request) *web.Error {
		if !g.Hosts.Allow(r) {
			return web.NewError(http.StatusMisdirectedRequest, api.ReasonMisdirected,
				"this listener is not %.100q; ask by its address, for a name of server.hosts, or over a loopback "+
					"address for localhost", r.Host)
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// ReadOnly is the handler of a listener that takes no changes. Its answer to a change says where they are taken.
func (g *Guard) ReadOnly(next http.Handler) http.Handler {
	return g.CheckHost(web.Handler(func(w http.ResponseWriter, r *http.Request) *web.Error {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return web.NotAllowed("GET, HEAD",
				"%.20s: this listener only reads; changes are taken at admin.listen", r.Method)
		}
		next.ServeHTTP(w, r)
		return nil
	}))
}

// Change checks a request for a change that needs the role, and says who asks.
func (g *Guard) Change(r *http.Request, need verbs.Role) (who string, bad *web.Error) {
	if !access.SameOrigin(r) {
		return "", web.NewError(
			http.StatusForbidden, api.ReasonForbidden, "changes are not taken from pages of other origins",
		)
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return "", web.NewError(
			http.StatusUnsupportedMediaType, api.ReasonUnsupportedMedia,
			"Content-Type %.80q: want application/json",
			r.Header.Get("Content-Type"),
		)
	}
	return g.Allow(r, need)
}

// Known says whether a text is one of the tokens.
func (g *Guard) Known(token string) bool {
	if g.Tokens == nil {
		return false
	}
	_, known := g.Tokens.Find(token)
	return known
}

// Allow checks the token of a request that needs the role, and says who asks.
//
// A token that is known is never held back by others from its address that are not: behind a proxy all have the same
// one, and a job with an old token would lock operators out. Failures alone are limited.
func (g *Guard) Allow(r *http.Request, need verbs.Role) (who string, bad *web.Error) {
	if g.Tokens == nil {
		return local, nil
	}
	text, ok := access.Bearer(r)
	if !ok {
		return "", unauthorized("a token is needed (Authorization: Bearer TOKEN)")
	}
	identity, known := g.Tokens.Find(text)
	switch {
	case !known:
		return "", g.failed(r)
	case identity.Role < need:
		return "", web.NewError(
			http.StatusForbidden, api.ReasonForbidden, "the token %s may %s; this needs one that may %s",
			identity.Name, identity.Role, need,
		)
	}
	return identity.Name, nil
}

// failed is the answer to a token that is not known. After too many of them from one address it says when to try again.
func (g *Guard) failed(r *http.Request) *web.Error {
	from, now := web.Client(r), g.now()
	if wait := g.limit.Wait(from, now); wait > 0 {
		bad := web.NewError(
			http.StatusTooManyRequests, api.ReasonTooManyFailures,
			"the token is not known, and too many from this address were not",
		)
		bad.RetryAfter = wait
		return bad
	}
	g.limit.Failed(from, now)
	return unauthorized("the token is not known")
}

func (g *Guard) now() time.Time {
	if g.Now == nil {
		return time.Now()
	}
	return g.Now()
}

func unauthorized(message string) *web.Error {
	e := web.NewError(http.StatusUnauthorized, api.ReasonUnauthorized, "%s", message)
	e.Challenge = `Bearer realm="shardctl"`
	return e
}

// caller says who sent a request to a listener, and which changes it takes from them. Without tokens, open says whether
// everyone sees what tasks write there.
func (g *Guard) caller(r *http.Request, open bool, takes status.Changes) (api.Caller, *web.Error) {
	who, bad := g.identify(r, open, takes)
	if bad != nil {
		return api.Caller{}, bad
	}
	caller := api.Caller{Name: who.Name, Role: api.Role(who.Role.String())}
	if takes != status.ChangesNone {
		caller.Verbs = verbsOf(who.Role)
	}
	return caller, nil
}

// identify is who sent a request. A token that is not known is refused, and counts as a failure of its address.
func (g *Guard) identify(r *http.Request, open bool, takes status.Changes) (access.Identity, *web.Error) {
	if !access.SameOrigin(r) {
		return access.Identity{}, web.NewError(
			http.StatusForbidden, api.ReasonForbidden, "who asks is not said to pages of other origins",
		)
	}
	text, given := access.Bearer(r)
	switch {
	case g.Tokens == nil && takes != status.ChangesNone:
		return access.Identity{Name: local, Role: verbs.Admin}, nil
	case g.Tokens == nil && open:
		return access.Identity{Name: local, Role: verbs.Read}, nil
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
func verbsOf(has verbs.Role) []api.Verb {
	return slices.Sorted(slices.Values(verbs.Names(func(v verbs.Verb) bool { return has >= v.Role })))
}

// Output has next show what tasks wrote only to those who may see it, and say who asks. Where there are tokens, that
// takes one; a wrong one is refused. Without tokens open decides for all.
func (g *Guard) Output(next http.Handler, open bool) http.Handler {
	return g.grant(next, open, status.ChangesNone)
}

// grant is Output at a listener that takes changes.
func (g *Guard) grant(next http.Handler, open bool, takes status.Changes) http.Handler {
	return web.Handler(func(w http.ResponseWriter, r *http.Request) *web.Error {
		text, given := access.Bearer(r)
		granted := status.Access{
			Changes: takes, Caller: func() (api.Caller, *web.Error) { return g.caller(r, open, takes) },
		}
		switch {
		case g.Tokens == nil && open:
			granted.Trusted = takes != status.ChangesNone
		case g.vouched(r):
			granted.Trusted = true
		case g.Tokens == nil || !open:
			granted.Hidden = status.NoOutput()
		case !given || !strings.HasPrefix(r.URL.Path, "/api/"): // some scrape metrics with a token of their own
			granted.Hidden = unauthorized("output needs a token (Authorization: Bearer TOKEN)")
		default:
			if _, bad := g.Allow(r, verbs.Read); bad != nil {
				return bad
			}
			granted.Trusted = true
			granted.Allowed = func() bool {
				_, known := g.Tokens.Find(text)
				return known
			}
		}
		next.ServeHTTP(w, granted.Grant(r))
		return nil
	})
}

// Vouch is for [status.Config]: it proves to another replica that who asks has a token, which that replica never sees.
func (g *Guard) Vouch(r *http.Request, instance, target string) string {
	text, ok := access.Bearer(r)
	if g.Tokens == nil || !ok {
		return ""
	}
	proof, _ := g.Tokens.Vouch(text, instance+" "+target, g.now())
	return proof
}

// vouched says whether another replica proves that who asks it has a token.
func (g *Guard) vouched(r *http.Request) bool {
	proof := r.Header.Get(status.ProofHeader)
	return proof != "" && g.Tokens != nil && g.Tokens.Vouched(proof, g.Instance+" "+r.URL.RequestURI(), g.now())
}

package admin

import (
	"net/http"
	"strings"

	"github.com/shardctl/shardctl/internal/access"
	"github.com/shardctl/shardctl/internal/httperr"
	"github.com/shardctl/shardctl/internal/status"
)

// Output has next show what tasks wrote only to those who may see it, and say who asks. Where there are tokens, that
// takes one; a wrong one is refused. Without tokens open decides for all.
func (g *Guard) Output(next http.Handler, open bool) http.Handler {
	next = status.WithCaller(next, g.caller(open))
	none := status.HideOutput(next, status.NoOutput())
	unknown := status.HideOutput(next, unauthorized("output needs a token (Authorization: Bearer TOKEN)"))
	return httperr.Handler(func(w http.ResponseWriter, r *http.Request) *httperr.Error {
		text, given := bearer(r)
		switch {
		case g.Tokens == nil && open, g.vouched(r):
			next.ServeHTTP(w, r)
		case g.Tokens == nil || !open:
			none.ServeHTTP(w, r)
		case !given || !strings.HasPrefix(r.URL.Path, "/api/"): // some scrape metrics with a token of their own
			unknown.ServeHTTP(w, r)
		default:
			if _, bad := g.Allow(r, access.Read); bad != nil {
				return bad
			}
			next.ServeHTTP(w, status.WhileAllowed(r, func() bool {
				_, known := g.Tokens.Find(text)
				return known
			}))
		}
		return nil
	})
}

// Vouch is for [status.Config]: it proves to another replica that who asks has a token, which that replica never sees.
func (g *Guard) Vouch(r *http.Request, instance, target string) string {
	text, ok := bearer(r)
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

package status

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// openAPI is made by TestOpenAPIIsGenerated, from the routes, the changes and the types of package api.
//
//go:generate go test -run ^TestOpenAPIIsGenerated$ -update
//go:embed openapi.json
var openAPI []byte

// openAPIOfReads is the description without changes.
var openAPIOfReads = sync.OnceValues(func() ([]byte, error) {
	var doc map[string]json.RawMessage
	var paths map[string]map[string]json.RawMessage
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		return nil, fmt.Errorf("openapi.json: %w", err)
	}
	if err := json.Unmarshal(doc["paths"], &paths); err != nil {
		return nil, fmt.Errorf("openapi.json: paths: %w", err)
	}
	for path, methods := range paths {
		if _, changes := methods["post"]; changes {
			delete(paths, path)
		}
	}
	reads, err := json.Marshal(paths)
	if err != nil {
		return nil, fmt.Errorf("openapi.json: paths: %w", err)
	}
	doc["paths"] = reads
	return json.MarshalIndent(doc, "", " ")
})

// openapi describes what the listener takes that was asked: changes only where they are taken.
func openapi(w http.ResponseWriter, r *http.Request) *web.Error {
	text := openAPI
	if accessOf(r.Context()).Changes == ChangesNone {
		var err error
		if text, err = openAPIOfReads(); err != nil {
			return internal(err)
		}
	}
	return sendText(w, r, mediaJSON, string(text))
}

// New returns the handler of everything that only reads: the page, the API, health and metrics. It takes GET and HEAD
// alone and may be mounted on several listeners. Use [Serve] to serve it, or connections that watch hold up a shutdown.
func New(c Config) http.Handler {
	c = c.withDefaults()
	return handler(c, newServer(c))
}

// handler serves the routes.
func handler(c Config, s *server) http.Handler {
	mux := http.NewServeMux()
	for _, route := range s.routes(c) {
		handle := route.handle
		if !route.unlimited {
			handle = s.limited(handle)
		}
		mux.Handle(route.path, readOnly(handle))
	}
	mux.Handle("/", web.Handler(func(_ http.ResponseWriter, r *http.Request) *web.Error {
		return web.NotFound("there is nothing at %s; /openapi.json lists what there is", r.URL.Path)
	}))
	return web.Shielded(mux, c.Logger)
}

func readOnly(e web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) *web.Error {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return web.NotAllowed("GET, HEAD", "%s only reads: use GET", r.URL.Path)
		}
		return e(w, r)
	}
}

// limited refuses requests beyond how many are answered at once.
func (s *server) limited(e web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) *web.Error {
		leave, bad := enter(s.shares.of(r).answering, r, api.ReasonTooManyRequests, "requests are answered")
		if bad != nil {
			return bad
		}
		defer leave()
		return e(w, r.WithContext(context.WithValue(r.Context(), answeringKey{}, leave)))
	}
}

// route is a path that answers GET and HEAD: what answers, and what openapi.json says of it. Its path parameters are in
// the path. Paths under /api take a token.
type route struct {
	path    string
	id      string // operationId
	summary string
	params  []string // of the query
	answer  any      // a value of the type that is answered as JSON; a string: the media type of a text
	handle  web.Handler

	unlimited   bool   // answered however many others are
	scrapes     bool   // it has a limit of its own
	forbidden   bool   // a token or a listener may be refused
	unavailable string // the response in openapi.json of a 503; empty: NotReady
}

// routes are all paths that can be read. The page and the probes come first, then the API. Probes are unlimited: they
// must not fail because many others ask. Metrics have a limit of their own.
func (s *server) routes(c Config) []route {
	return append(s.otherRoutes(c), append(s.listRoutes(), s.objectRoutes(c)...)...)
}

func (s *server) otherRoutes(c Config) []route {
	health := health{source: c.Source, alive: c.Live, ready: c.Ready}
	metrics := s.metrics(&exposition{from: c.Registry, log: c.Logger})
	return []route{{
		path: "/{$}", id: "page", handle: s.page, answer: "text/html",
		summary: "The page for people. Without JavaScript it is a plain table, which view=plain asks for.",
		params:  slices.Concat([]string{"view"}, plainParams, pageParams),
	}, {
		path: "/livez", id: "livez", handle: health.livez, answer: "text/plain", unlimited: true,
		summary:     "The process answers, and its loops turn; the store is not asked.",
		unavailable: "NotAlive",
	}, {
		path: "/readyz", id: "readyz", handle: health.readyz, answer: "text/plain", unlimited: true,
		summary:     "This replica takes part: started, not draining, and its application has come.",
		unavailable: "NotKnownYet",
	}, {
		path: "/metrics", id: "metrics", handle: metrics, answer: "text/plain", unlimited: true, scrapes: true,
		summary: "Prometheus metrics, made at most once a second.", unavailable: "TooManyRequests",
	}, {
		path: "/openapi.json", id: "openapi", handle: openapi, answer: map[string]any{},
		summary: "This description.", unavailable: "TooManyRequests",
	}, {
		path: "/api/v1/whoami", id: "whoami", handle: withoutParameters(whoami), answer: api.Caller{}, forbidden: true,
		summary: "Who asks, and which changes this listener takes from them.", unavailable: "TooManyRequests",
	}}
}

func (s *server) listRoutes() []route {
	return []route{
		{
			path: s.statuses.list.path, id: "status", handle: listHandler(s, s.statuses), answer: api.Status{},
			params: []string{"watch"}, summary: "The cluster on one screen.",
		},
		listRoute(s.groups, "groups", "Groups, by name.", listHandler(s, s.groups), api.List[api.Group]{}),
		listRoute(s.tasks, "tasks", "Tasks, by key.", listHandler(s, s.tasks), api.List[api.Task]{}),
		listRoute(s.instances, "instances", "Instances, by name.",
			listHandler(s, s.instances), api.List[api.Instance]{}),
		listRoute(s.locks, "locks", "Who holds which lock and who waits for it, by key.",
			s.listLocks, api.List[api.Lock]{}),
		listRoute(s.owners, "owners", "Who owns which key, and where requests for it go, by key.",
			s.listOwners, api.List[api.KeyOwner]{}),
		listRoute(s.overrides, "overrides", "What operators asked for and what still counts, by kind, scope and name.",
			listHandler(s, s.overrides), api.List[api.Override]{}),
		{
			path: eventsPath, id: "events", handle: s.listEvents, answer: api.List[api.Event]{},
			summary: "What happened, newest first. A watcher that sends Last-Event-ID goes on after that event.",
			params:  slices.Concat(eventParams, listParams),
		},
	}
}

func listRoute[T any](t *topic[T], id, summary string, handle web.Handler, answer any) route {
	return route{
		path: t.list.path, id: id, summary: summary, handle: handle, answer: answer,
		params: slices.Concat(t.list.params, listParams),
	}
}

func (s *server) objectRoutes(c Config) []route {
	return []route{{
		path: "/api/v1/tasks/{group}/{name}", id: "task", summary: "One task.", answer: api.One[api.Task]{},
		handle: withoutParameters(s.task),
	}, {
		path: "/api/v1/tasks/{group}/{name}/logs", id: "logs", handle: taskLogs{s, c.Logs, c.peers(), c.Logger}.get,
		summary: "The last lines that a task wrote since its owner has it; asked of the owner. " +
			"While no instance owns it: what it wrote last, if that is still kept.",
		params: logParams, answer: "text/plain", forbidden: true,
	}, {
		path: "/api/v1/tasks/{group}/{name}/runs", id: "runs", handle: withoutParameters(s.runs(c.Runs)),
		answer:  api.List[api.Run]{},
		summary: "The last ten runs of a task with ticks, or of one that may end for good, newest first.",
	}, {
		path: "/api/v1/groups/{name}", id: "group", summary: "One group.", answer: api.One[api.Group]{},
		handle: withoutParameters(oneOf(s, (*snapshot.Cluster).Group, "no group %q is declared")),
	}, {
		path: "/api/v1/instances/{name}", id: "instance", summary: "One instance.", answer: api.One[api.Instance]{},
		handle: withoutParameters(oneOf(s, (*snapshot.Cluster).Instance,
			"no instance %q is known; those dead for an hour are forgotten")),
	}}
}

// peers asks as configured. Where an address leads is what a member says of itself: it may not lead on elsewhere. No
// proxy of the environment comes between replicas: it is for the world outside, and would see what tasks write.
func (c Config) peers() peers {
	client := *c.Peers
	if client.Transport == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the library's own
		transport.Proxy = nil
		client.Transport = transport
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return peers{&client, c.PeerScheme, c.Vouch}
}

package status

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config is what the handler shows. Only Source is required.
type Config struct {
	Source   Source
	Events   EventSource         // nil: the list of events is always empty
	Logs     LogSource           // nil: this replica keeps no output
	Registry prometheus.Gatherer // of /metrics; nil: the metrics of the cluster alone
	Logger   logr.Logger

	// Live is asked by /livez and must not ask the store. Nil: always alive.
	Live func() error
	// Ready is asked by /readyz; its error says why not. Nil: as the newest snapshot says.
	Ready func() error

	// Peers asks other replicas for the output of tasks that they run. Nil: a client with a limit of 5 s.
	Peers *http.Client
	// PeerScheme is http or https, as replicas serve each other; empty: http.
	PeerScheme string
	// MaxWatchers is how many connections may watch at once. 0: 256.
	MaxWatchers int
}

// server answers requests. It is shared between all of them.
type server struct {
	Config
	tasks     *differ[Task]
	groups    *differ[Group]
	instances *differ[Instance]
	locks     *differ[Lock]
	events    eventLog
	watchers  chan struct{}
	now       func() time.Time
}

// New returns the handler of everything that only reads: the page, the API, health and metrics. It takes GET and HEAD
// alone and may be mounted on several listeners. Use [Serve] to serve it, or connections that watch hold up a shutdown.
func New(c Config) http.Handler {
	return newServer(c).handler()
}

func newServer(c Config) *server {
	if c.Registry == nil {
		r := prometheus.NewRegistry()
		r.MustRegister(NewClusterCollector(c.Source))
		c.Registry = r
	}
	if c.Peers == nil {
		c.Peers = &http.Client{Timeout: 5 * time.Second}
	}
	if c.PeerScheme == "" {
		c.PeerScheme = "http"
	}
	if c.MaxWatchers == 0 {
		c.MaxWatchers = 256
	}
	return &server{
		Config:    c,
		tasks:     &differ[Task]{collection: taskCollection()},
		groups:    &differ[Group]{collection: groupCollection()},
		instances: &differ[Instance]{collection: instanceCollection()},
		locks:     &differ[Lock]{collection: lockCollection()},
		events:    eventLog{source: c.Events},
		watchers:  make(chan struct{}, c.MaxWatchers),
		now:       time.Now,
	}
}

// endpoint answers a request, or says why not.
type endpoint func(w http.ResponseWriter, r *http.Request) *Error

// routes are all paths there are; openapi.json describes each of them, and a test compares.
func (s *server) routes() map[string]endpoint {
	metrics := promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 8, Timeout: 10 * time.Second,
	})
	return map[string]endpoint{
		"/":                                 s.page,
		"/livez":                            s.livez,
		"/readyz":                           s.readyz,
		"/openapi.json":                     s.openapi,
		"/metrics":                          plain(metrics),
		"/api/v1/status":                    s.status,
		"/api/v1/groups":                    list(s, s.groups),
		"/api/v1/tasks":                     list(s, s.tasks),
		"/api/v1/instances":                 list(s, s.instances),
		"/api/v1/locks":                     list(s, s.locks),
		"/api/v1/events":                    s.listEvents,
		"/api/v1/tasks/{group}/{name}":      s.task,
		"/api/v1/tasks/{group}/{name}/logs": s.logs,
		"/api/v1/instances/{name}":          s.instance,
	}
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for path, e := range s.routes() {
		if path == "/" {
			path = "/{$}"
		}
		mux.Handle(path, readOnly(e))
	}
	mux.Handle("/", problemHandler(func(_ http.ResponseWriter, r *http.Request) *Error {
		return notFound("there is nothing at %s; /openapi.json lists what there is", r.URL.Path)
	}))
	return s.guard(mux)
}

// guard sets what every answer carries and turns a panic into an answer, so that one request never takes the replica
// down.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint // the very value is what net/http asks for
				panic(v)
			}
			s.Logger.Error(fmt.Errorf("panic: %v", v), "A request could not be answered", "path", r.URL.Path)
			problem(http.StatusInternalServerError, "Internal", "this request could not be answered; see the log").write(w)
		}()
		next.ServeHTTP(w, r)
	})
}

func problemHandler(e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := e(w, r); err != nil {
			err.write(w)
		}
	})
}

func readOnly(e endpoint) http.Handler {
	return problemHandler(func(w http.ResponseWriter, r *http.Request) *Error {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			err := problem(http.StatusMethodNotAllowed, ReasonMethodNotAllowed, "%s only reads: use GET", r.URL.Path)
			err.allow = "GET, HEAD"
			return err
		}
		return e(w, r)
	})
}

func plain(h http.Handler) endpoint {
	return func(w http.ResponseWriter, r *http.Request) *Error {
		h.ServeHTTP(w, r)
		return nil
	}
}

// snapshot is the newest one, or the error before the first.
func (s *server) snapshot() (*Snapshot, *Error) {
	snapshot := s.Source.Snapshot()
	if snapshot == nil {
		return nil, unavailable(ReasonNotReady, "nothing is known of the cluster yet; try again in a moment")
	}
	return snapshot, nil
}

func (s *server) query(r *http.Request, path string, params, states []string) (query, *Error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return query{}, invalid(FieldError{"query", strings.TrimPrefix(err.Error(), "invalid ")})
	}
	return parseQuery(values, path, params, states, s.now())
}

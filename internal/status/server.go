package status

import (
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// Config is what the handler shows. Only Source is required.
type Config struct {
	Source   snapshot.Source
	Events   snapshot.EventSource // nil: the list of events is always empty
	Runs     snapshot.RunSource   // nil: no runs are kept
	Mutexes  snapshot.MutexSource // nil: locks are those of tasks alone
	Logs     LogSource            // nil: this replica keeps no output
	Registry prometheus.Gatherer  // of /metrics; nil: the metrics of the cluster alone
	Logger   logr.Logger

	// Live is asked by /livez and must not ask the store. Nil: always alive.
	Live func() error
	// Ready is asked by /readyz once the newest snapshot says that this replica takes part; its error says why it is
	// not ready. Nil: it is.
	Ready func() error

	// Peers asks other replicas for the output of tasks that they run. Nil: a client with a limit of 5 s.
	Peers *http.Client
	// PeerScheme is http or https, as replicas serve each other; empty: http.
	PeerScheme string
	// Vouch makes a proof for another instance that who sent r may see what is asked of it: target, a path with its
	// query. Nil: none is sent.
	Vouch func(r *http.Request, instance, target string) string
	// MaxWatchers is how many connections may watch at once, those over loopback not counted. A quarter of them may be
	// of one client. 0: 256.
	MaxWatchers int
}

// Replica is a replica that a handler shows whole.
type Replica interface {
	Board() *snapshot.Board
	StoreSource() snapshot.StoreSource
	LogSource

	// Live and Ready are as in [Config].
	Live() error
	Ready() error
}

// Showing returns the configuration of a handler that shows all of a replica, and what counted has; nil: nothing was
// counted.
func Showing(r Replica, counted *metrics.Metrics, log logr.Logger) Config {
	read := r.StoreSource()
	return Config{
		Source: r.Board(), Events: read, Runs: read, Mutexes: read, Logs: r,
		Registry: metrics.NewRegistry(r.Board(), counted), Live: r.Live, Ready: r.Ready, Logger: log,
	}
}

// maxWatchers is how many connections may watch a replica at once, unless [Config] says otherwise.
const maxWatchers = 256

func (c Config) withDefaults() Config {
	if c.Registry == nil {
		r := prometheus.NewRegistry()
		r.MustRegister(metrics.NewCollector(c.Source, false))
		c.Registry = r
	}
	if c.Peers == nil {
		c.Peers = &http.Client{Timeout: 5 * time.Second}
	}
	if c.PeerScheme == "" {
		c.PeerScheme = "http"
	}
	if c.MaxWatchers == 0 {
		c.MaxWatchers = maxWatchers
	}
	return c
}

// server answers requests. It is shared between all of them.
type server struct {
	source    snapshot.Source
	statuses  *topic[api.Status]
	tasks     *topic[api.Task]
	groups    *topic[api.Group]
	instances *topic[api.Instance]
	locks     *topic[api.Lock]
	overrides *topic[listedOverride]
	owners    *topic[api.KeyOwner]
	watch     *watchers
	feed      *eventFeed
	whole     *answers // from the snapshot
	shares    shares
	lists     *pace // of reads of the store for strangers
	now       func() time.Time
}

func newServer(c Config) *server {
	both, lists := newShares(c.MaxWatchers), new(pace)
	mutexes := newMutexes(c.Source, c.Mutexes, c.Logger)
	return &server{
		source:    c.Source,
		statuses:  newTopic(statusCollection(), c.Source, nil),
		tasks:     newTopic(taskCollection(), c.Source, nil),
		groups:    newTopic(groupCollection(), c.Source, nil),
		instances: newTopic(instanceCollection(), c.Source, nil),
		locks:     newTopic(lockCollection(), mutexes, mutexes.refresh),
		overrides: newTopic(overrideCollection(), c.Source, nil),
		owners:    newTopic(ownerCollection(c.Source), c.Source, nil),
		watch:     &watchers{log: c.Logger, shares: both},
		feed:      newEventFeed(c.Events, lists, c.Logger),
		whole:     newAnswers(halfTheProcessors()),
		shares:    both,
		lists:     lists,
		now:       time.Now,
	}
}

// snapshot is the newest one, or the error before the first.
func (s *server) snapshot() (*snapshot.Cluster, *web.Error) {
	snapshot := s.source.Snapshot()
	if snapshot == nil {
		return nil, web.Unavailable(
			api.ReasonNotReady, "nothing is known of the cluster yet; try again in a moment",
		)
	}
	return snapshot, nil
}

func (s *server) query(r *http.Request, path string, params, states []string) (query, *web.Error) {
	values, bad := parameters(r)
	if bad != nil {
		return query{}, bad
	}
	return s.parsed(r, values, path, params, states)
}

func (s *server) parsed(r *http.Request, values url.Values, path string, params, states []string) (query, *web.Error) {
	q, bad := parseQuery(values, path, params, states, s.now())
	q.hidden, q.public = outputHidden(r) != nil, !accessOf(r.Context()).Trusted
	return q, bad
}

// answers are those from the snapshot that the query belongs to.
func (s *server) answers(r *http.Request, q *query) *answers {
	if q.all() {
		return s.whole
	}
	return s.shares.of(r).filtered
}

package settings

import (
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Settings configures a replica. They are checked, every default is filled in, and every variable outside the tasks'
// runners is replaced. They are never changed once they are made.
type Settings struct {
	Cluster  string // several clusters can share one database
	Revision int64  // of the task lists: where replicas differ, the higher one holds
	Self

	Store     Store
	Lease     Lease
	Rebalance Rebalance
	Shutdown  Shutdown
	Server    Server
	App       App
	Admin     Admin
	Metrics   Metrics
	Log       Log

	Groups []Group // in the order in which they are first named

	// ShownFields returns the fields of a task that are shown with it, by name, as its configuration has them. Nil: there
	// are none, as of tasks that no configuration declares.
	ShownFields func(*tasks.Task) map[string]string
}

// Declared returns what is shown of the configuration of a task, by field; nil if nothing is.
func (s *Settings) Declared(t *tasks.Task) map[string]string {
	if s.ShownFields == nil {
		return nil
	}
	return s.ShownFields(t)
}

// Self is what concerns this replica alone.
type Self struct {
	Instance string // its name
	Zone     string // empty: unknown
	Labels   map[string]string
	MaxTasks int // most tasks it owns over all groups; 0: no limit
	// Rollout names what this replica was started from: while two run side by side, keys that move go to the newer.
	// Empty: the program's version and a hash of it.
	Rollout string
	Pod     Pod
}

// WithDiscovered returns a copy of s with the tasks that were discovered added to their groups, by name.
func (s *Settings) WithDiscovered(found map[string][]tasks.Task) *Settings {
	all := *s
	all.Groups = slices.Clone(s.Groups)
	for i, g := range all.Groups {
		all.Groups[i].Tasks = slices.Concat(g.Tasks, found[g.Name])
	}
	return &all
}

// Tasks returns the number of tasks in all groups.
func (s *Settings) Tasks() int {
	n := 0
	for _, g := range s.Groups {
		n += len(g.Tasks)
	}
	return n
}

// StoreConfig returns the configuration that the store is opened with.
func (s *Settings) StoreConfig(log logr.Logger) store.Config {
	return store.Config{
		URI: s.Store.URI, Renew: s.Store.Renew, Database: s.Store.Database, Cluster: s.Cluster,
		Timeout: s.Lease.Duration / 6, Logger: log,
	}
}

// Pod says which container of which pod this is, so that a restarted one takes its own keys back at once: restart in
// place. Without it they wait for the lease, as after any death.
type Pod struct {
	UID       string // of the pod; empty: not known
	Container string // its name in the pod
	Dir       string // on a volume of the pod that outlives the container and no more, such as an emptyDir
}

// Lease is the time a replica may be silent before its tasks run elsewhere.
type Lease struct {
	Duration      time.Duration // at least 1 s
	RenewDeadline time.Duration // tasks are cancelled so long after the last heartbeat; at most 3/4 of Duration
}

// Rebalance says how eagerly tasks move for balance alone.
type Rebalance struct {
	Settle       time.Duration // membership must have been stable for so long
	MaxMoves     int           // hand-overs at once per group; 0: no limit
	OnRestart    OnRestart
	RestartGrace time.Duration // with OnRestartWait: how long tasks wait for the replica to come back
}

// OnRestart says what becomes of the tasks of a replica that is restarted in order.
type OnRestart string

// What may become of them.
const (
	OnRestartMove OnRestart = "move" // others take them at once
	OnRestartWait OnRestart = "wait" // they wait for the replica, at most RestartGrace
)

// Shutdown bounds the drain after SIGTERM.
type Shutdown struct {
	Timeout time.Duration
}

// Server is the listener that only reads: page, API, metrics, health.
type Server struct {
	Listen    string // host:port; empty host: all addresses
	Advertise string // host:port where other replicas reach it; never empty
	// Hosts are the names under which both listeners are asked, beside those of loopback; empty: over other addresses
	// than loopback any name.
	Hosts []string
	// Logs says whether it shows what tasks write.
	Logs ServeLogs
	// Route says whether it forwards requests under /route to the owners of their keys.
	Route bool
	TLS   TLS
}

// App is the application beside this replica: a process that runs the tasks with assign.
type App struct {
	Listen    string   // unix:/PATH, or host:port on loopback; empty: there is none
	TokenFile string   // holds what its requests bear; never empty on host:port without Command
	Command   []string // starts it; empty: others do
	Address   string   // host:port where requests for its keys go; empty: nowhere
}

// Assign is the kind of the tasks that an application runs, as a configuration names it.
const Assign = "assign"

// ServeLogs says whether server.listen shows what tasks write: their output, and the errors they end with.
type ServeLogs string

// What it may say.
const (
	ServeLogsAuto ServeLogs = "auto" // to those with a token, and on loopback where no token is asked for
	ServeLogsYes  ServeLogs = "true" // to all where no token is asked for, else to those with one
	ServeLogsNo   ServeLogs = "false"
)

// ShowsOutput reports whether server.listen shows what tasks write: with admin.tokensFile to those with a token,
// without it to all.
func (s *Settings) ShowsOutput() bool {
	switch s.Server.Logs {
	case ServeLogsYes:
		return true
	case ServeLogsNo:
		return false
	default:
		return s.Admin.TokensFile != "" || OnLoopback(s.Server.Listen)
	}
}

// Admin is the listener that changes things as well.
type Admin struct {
	Listen     string
	TokensFile string // lines "NAME TOKEN [read|operate|admin]"; empty only on loopback
	TLS        TLS
}

// TLS names a certificate and its key, PEM files; both are empty or neither is.
type TLS struct {
	CertFile, KeyFile string
	// CAFile holds the authorities by which other replicas are trusted, PEM; empty: the system's. Of [Server] only.
	CAFile string
}

// Enabled reports whether a certificate is set.
func (t TLS) Enabled() bool { return t.CertFile != "" }

// Metrics says what is measured beyond the ordinary.
type Metrics struct {
	PerTask bool // a label `task` on metrics of tasks
}

// Log says what the program writes about itself.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // json, console
}

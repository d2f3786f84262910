package config

import (
	"crypto/sha256"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Settings is a whole configuration: checked, with every default filled in and every variable outside the tasks'
// runners replaced. No one changes it once [Load] has returned it.
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

	Sources
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

// Sources are what the settings were read from.
type Sources struct {
	// Files are the files that were read, in order; of a directory, those in it.
	Files []string
	// Warnings are what is allowed, and probably not meant, with its places.
	Warnings decode.Errors

	seen    [sha256.Size]byte // what the files held
	written written           // of all but groups
}

// Store says where locks are kept.
type Store struct {
	// URI begins with a registered scheme (see package store). It may hold a password: show [Store.Masked] instead.
	URI      string
	Renew    func() (string, error) // as in [store.Config]
	Database string                 // never empty where the store keeps several on one server
	// Withheld are the variables of the environment that hold the store's secrets: commands do not get them.
	Withheld []string
	named    bool   // the file names the database
	written  string // the URI in the file, before anything was replaced
}

// Renewal replaces what stands in $(…) of a URI again, since files that it names may be renewed. Nil: it names none.
func Renewal(written string, env decode.Lookup) func() (string, error) {
	if !strings.Contains(written, "$(file:") {
		return nil
	}
	return func() (string, error) { return variables.Expand(written, env) }
}

// logsIn matches who logs in, in a URI whose secrets are hidden.
var logsIn = regexp.MustCompile("://[^/?@]*@")

// lasting is what of the URI counts only after a restart: all but user and password where they are renewed.
func (s Store) lasting() string {
	if s.Renew == nil {
		return s.URI
	}
	return s.written + " " + logsIn.ReplaceAllString(s.Masked(), "://")
}

// Kind is what the store's driver is called; empty when there is none.
func (s Store) Kind() string {
	d, err := store.Lookup(s.URI)
	if err != nil {
		return ""
	}
	return d.Name()
}

// StoreConfig is how the store is opened that the settings name.
func (s *Settings) StoreConfig(log logr.Logger) store.Config {
	return store.Config{
		URI: s.Store.URI, Renew: s.Store.Renew, Database: s.Store.Database, Cluster: s.Cluster,
		Timeout: s.Lease.Duration / 6, Logger: log,
	}
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

// ServeLogs says whether server.listen shows what tasks write: their output, and the errors they end with.
type ServeLogs string

// What it may say.
const (
	ServeLogsAuto ServeLogs = "auto" // to those with a token, and on loopback where no token is asked for
	ServeLogsYes  ServeLogs = "true" // to all where no token is asked for, else to those with one
	ServeLogsNo   ServeLogs = "false"
)

// ShowsOutput says whether server.listen shows what tasks write. With admin.tokensFile that is to those with a token,
// without it to all.
func (s *Settings) ShowsOutput() bool {
	switch s.Server.Logs {
	case ServeLogsYes:
		return true
	case ServeLogsNo:
		return false
	default:
		return s.Admin.TokensFile != "" || onLoopback(s.Server.Listen)
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

// Enabled says whether a certificate is set.
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

// Group is a set of tasks balanced together under one cap.
type Group struct {
	Name     string
	Cap      *int              // most tasks one instance owns in this group; nil: no cap
	Selector map[string]string // labels an instance must have to own any; empty: all may
	Tasks    []tasks.Task      // braces expanded, in the order of the files; then slots, or those that were discovered
	Discover *Discover         // makes more tasks; nil: none are discovered
	// Slots is how many tasks are the slots of keys that nobody declares, see [tasks.Slot]; 0: none.
	Slots int
	// WeightFrom says what the weights of tasks come from.
	WeightFrom WeightFrom
	// Hash says which list this is, equal on replicas with equal lists. It is made of the tasks' names and fields as
	// written and the selector, never of what variables hold. The cap is left out, since each replica may have its own.
	Hash string

	written      written   // of the group itself
	tasksWritten []written // of each task but slots; nil where nothing came from outside
	slots        *Template // of slots; nil: there are none
}

// WeightFrom says what the weights of a group's tasks come from. Tasks of which that is not measured have the weight
// that is declared.
type WeightFrom string

// What they may come from.
const (
	WeightDeclared WeightFrom = "declared" // the field weight alone
	WeightLag      WeightFrom = "lag"      // it, times what follows from how far a task is behind
	WeightReported WeightFrom = "reported" // the load that the task reports, beside that of the others
	WeightCPU      WeightFrom = "cpu"      // the processor time that its command uses, beside that of the others
)

// Measured says whether weights come from more than the field weight.
func (f WeightFrom) Measured() bool { return f == WeightLag || f.Loads() }

// Loads says whether weights come from loads.
func (f WeightFrom) Loads() bool { return loaded[f] != nil }

// loaded are the kinds of tasks of which there may be a load.
var loaded = map[WeightFrom][]string{WeightReported: {"callback", "assign"}, WeightCPU: {"exec"}}

// Measures says whether the weight of one of the group's tasks follows what is measured of it.
func (g *Group) Measures(t *tasks.Task) bool {
	if g.WeightFrom == WeightLag {
		return t.Subscribes()
	}
	return slices.Contains(loaded[g.WeightFrom], t.Kind())
}

// WithDiscovered is s with tasks added to groups, by their names: those that were discovered. s stays as it is.
func (s *Settings) WithDiscovered(found map[string][]tasks.Task) *Settings {
	all := *s
	all.Groups = slices.Clone(s.Groups)
	for i, g := range all.Groups {
		all.Groups[i].Tasks = slices.Concat(g.Tasks, found[g.Name])
	}
	return &all
}

// Tasks counts the tasks of all groups.
func (s *Settings) Tasks() int {
	n := 0
	for _, g := range s.Groups {
		n += len(g.Tasks)
	}
	return n
}

// Changed lists the fields, as lease.duration, outside the task lists in which two configurations differ. A running
// replica takes them up only when it is restarted. Of the task lists are groups, with all that is in them, and
// revision.
func Changed(before, after *Settings) []string {
	var names []string
	old, now := before.fixed(), after.fixed()
	for i := range old {
		if !reflect.DeepEqual(old[i].Value, now[i].Value) {
			names = append(names, old[i].Name)
		}
	}
	return names
}

// fixed are the fields that do not change while a replica runs.
func (s *Settings) fixed() decode.Fields {
	return decode.Fields{
		{Name: "cluster", Value: s.Cluster},
		{Name: "instance", Value: s.Instance},
		{Name: "zone", Value: s.Zone},
		{Name: "labels", Value: decode.Map(s.Labels)},
		{Name: "maxTasks", Value: s.MaxTasks},
		{Name: "rollout", Value: s.Rollout},
		{Name: "pod.uid", Value: s.Pod.UID},
		{Name: "pod.container", Value: s.Pod.Container},
		{Name: "pod.dir", Value: s.Pod.Dir},
		{Name: "store.uri", Value: s.Store.lasting()},
		{Name: "store.database", Value: s.Store.Database},
		{Name: "lease.duration", Value: s.Lease.Duration},
		{Name: "lease.renewDeadline", Value: s.Lease.RenewDeadline},
		{Name: "rebalance.settle", Value: s.Rebalance.Settle},
		{Name: "rebalance.maxMoves", Value: s.Rebalance.MaxMoves},
		{Name: "rebalance.onRestart", Value: s.Rebalance.OnRestart},
		{Name: "rebalance.restartGrace", Value: s.Rebalance.RestartGrace},
		{Name: "shutdown.timeout", Value: s.Shutdown.Timeout},
		{Name: "server.listen", Value: s.Server.Listen},
		{Name: "server.advertise", Value: s.Server.Advertise},
		{Name: "server.hosts", Value: s.Server.Hosts},
		{Name: "server.logs", Value: s.Server.Logs},
		{Name: "server.route", Value: s.Server.Route},
		{Name: "server.tls", Value: s.Server.TLS},
		{Name: "app.listen", Value: s.App.Listen},
		{Name: "app.tokenFile", Value: s.App.TokenFile},
		{Name: "app.command", Value: s.App.Command},
		{Name: "app.address", Value: s.App.Address},
		{Name: "admin.listen", Value: s.Admin.Listen},
		{Name: "admin.tokensFile", Value: s.Admin.TokensFile},
		{Name: "admin.tls", Value: s.Admin.TLS},
		{Name: "metrics.perTask", Value: s.Metrics.PerTask},
		{Name: "log.level", Value: s.Log.Level},
		{Name: "log.format", Value: s.Log.Format},
	}
}

// WithLists is s with the task lists of another configuration: what a running replica goes on with after a reload.
func (s *Settings) WithLists(from *Settings) *Settings {
	merged := *s
	merged.Groups, merged.Revision, merged.Files, merged.seen = from.Groups, from.Revision, from.Files, from.seen
	merged.Warnings = from.Warnings
	return &merged
}

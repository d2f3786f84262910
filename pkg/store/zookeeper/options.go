package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// Defaults of [Options].
const (
	DefaultDatabase         = "shardctl"
	DefaultCluster          = engine.DefaultCluster
	DefaultOperationTimeout = 3 * time.Second // about a sixth of the default lease
	defaultPort             = 2181
)

// Options say which ensemble to use, and how.
type Options struct {
	// URI is zk://[USER:PASSWORD@]HOST[:PORT],…[/CHROOT][?tls=true&tlsCAFile=…&tlsCertFile=…&tlsKeyFile=…]. Required.
	// The znode /CHROOT has to exist.
	URI string
	// Database is the znode below CHROOT that holds the clusters. Default: DefaultDatabase.
	Database string
	// Cluster is the znode below it, so that several clusters can share one ensemble: letters, digits, '.', '-' and
	// '_', at most 63. Default: DefaultCluster.
	Cluster string
	// OperationTimeout bounds calls whose context has no deadline. Give it a sixth of the lease's duration. Default:
	// DefaultOperationTimeout.
	OperationTimeout time.Duration
	// Existing opens a store that was set up before, for a few calls: nothing is made or written, and the right to read
	// is enough.
	Existing bool
	// Logger gets broken connections, at V(1), and unreadable documents. Default: none.
	Logger logr.Logger
}

var (
	syntax = storeuri.Syntax{DefaultPort: defaultPort, TLS: true}
	// name of a znode that needs no escape; "zookeeper" is the servers' own
	databaseName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}$`)
	chroot       = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)
)

func (o Options) withDefaults() Options {
	o.Database = cmp.Or(o.Database, DefaultDatabase)
	o.Cluster = cmp.Or(o.Cluster, DefaultCluster)
	o.OperationTimeout = cmp.Or(o.OperationTimeout, DefaultOperationTimeout)
	return o
}

// parse reads the URI and refuses what is wrong with the rest. The error wraps [store.ErrInvalid] and names all of it.
func (o Options) parse() (storeuri.URI, error) {
	u, err := parseURI(o.URI)
	all := []error{err, checkDatabase(o.Database)}
	if _, err := engine.Cluster(o.Cluster); err != nil {
		all = append(all, err)
	}
	if o.OperationTimeout < 0 {
		all = append(all, fmt.Errorf("%w: operation timeout: %s, want above 0", store.ErrInvalid, o.OperationTimeout))
	}
	return u, errors.Join(all...)
}

// parseURI reads a URI. Errors are a [store.FieldError].
func parseURI(uri string) (storeuri.URI, error) {
	u, err := syntax.Parse(uri)
	if err != nil {
		return u, err
	}
	refuse := func(text string) (storeuri.URI, error) { return u, &store.FieldError{Field: "uri", Text: text} }
	switch {
	case u.Scheme != scheme:
		return refuse("must be " + form)
	case (u.User == "") != (u.Password == ""):
		return refuse("names a user without a password, or a password without a user, must be " + form)
	case strings.Contains(u.User, ":"):
		return refuse("names a user with a colon, which ZooKeeper takes for the beginning of the password")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	if u.Path != "" && !chroot.MatchString(u.Path) {
		return refuse("names a wrong chroot, must be NAME[/NAME…] of letters, digits, '.', '-' and '_'")
	}
	_, err = u.TLS(false)
	return u, err
}

func checkDatabase(name string) error {
	if !databaseName.MatchString(name) || name == "zookeeper" {
		return &store.FieldError{
			Field: "database", Text: "must be 1 to 63 letters, digits, '.', '-' and '_', not begin with '.', and not " +
				"be zookeeper",
		}
	}
	return nil
}

const (
	scheme = "zk"
	form   = scheme + "://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/CHROOT]"
)

func init() { store.Register(scheme, registered{}) }

// registered is what the registry knows of ZooKeeper.
type registered struct{}

// Name implements [store.Driver].
func (registered) Name() string { return "zookeeper" }

// Form implements [store.Driver].
func (registered) Form(string) string { return scheme + "://HOST,…[/CHROOT]" }

// Parse implements [store.Driver].
func (registered) Parse(c store.Config) (store.Config, error) {
	c.Database = cmp.Or(c.Database, DefaultDatabase)
	var err error
	if c.Cluster, err = engine.Cluster(c.Cluster); err != nil {
		return c, err
	}
	if _, err := parseURI(c.URI); err != nil {
		return c, err
	}
	return c, checkDatabase(c.Database)
}

// Redact implements [store.Driver].
func (registered) Redact(uri string) string { return storeuri.Secrets(nil).Redact(uri) }

// Open implements [store.Driver].
func (registered) Open(ctx context.Context, c store.Config) (store.Store, error) {
	return Open(ctx, Options{
		URI: c.URI, Database: c.Database, Cluster: c.Cluster, OperationTimeout: c.Timeout, Existing: c.Existing,
		Logger: c.Logger,
	})
}

// Obstructs implements [store.Driver]: no client holds up a server.
func (registered) Obstructs(store.Config, int) (bool, error) { return false, nil }

// Limits implements [store.Driver].
func (registered) Limits() store.Limits { return store.Limits{} }

package mongo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// Defaults of [Options].
const (
	DefaultDatabase         = "shardctl"
	DefaultCluster          = "default"
	DefaultOperationTimeout = 3 * time.Second // about a sixth of the default lease
)

// Options say which database to use, and how.
type Options struct {
	// URI is the connection string, mongodb://… or mongodb+srv://…. Required. Write concern, read concern, read
	// preference and retries in it are overridden: the protocol needs its own.
	URI string
	// Database holds the collections. Default: the URI's, else DefaultDatabase.
	Database string
	// Cluster names the collections, so that several clusters can share one database: letters, digits, _ and -, at
	// most 63. Default: DefaultCluster.
	Cluster string
	// OperationTimeout bounds calls whose context has no deadline, and the search for a primary in any of them. Give it
	// a sixth of the lease's duration. Default: DefaultOperationTimeout.
	OperationTimeout time.Duration
	// Existing opens a store that was set up before, for a few calls: nothing is made, the privilege find is enough to
	// open it, and no more connections are kept than are used.
	// Changes are left to the server to refuse.
	Existing bool
	// Logger gets broken watches and unreadable documents. Default: none.
	Logger logr.Logger
}

// Reasons of problems.
const (
	ReasonStandalone = "StoreStandalone" // no replica set: polling, and no second copy of the data
	ReasonArbiter    = "StoreArbiter"    // a member without data: one lost node may stop all writes
	ReasonSharding   = "StoreSharding"   // it could not be checked how the documents are sharded
	ReasonNotDurable = "StoreNotDurable" // a crash of a majority may lose what was read
)

var (
	clusterName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)
	badInDBNames = `/\. "$*<>:|?` + "\x00"
)

// withDefaults fills in what was left out, except the database, which the URI may name.
func (o Options) withDefaults() Options {
	if o.Cluster == "" {
		o.Cluster = DefaultCluster
	}
	if o.OperationTimeout == 0 {
		o.OperationTimeout = DefaultOperationTimeout
	}
	return o
}

// validate returns all that is wrong with the options; the error wraps [store.ErrInvalid].
func (o Options) validate() error {
	var all []error
	if o.URI == "" {
		all = append(all, errors.New("URI: empty, want mongodb://HOST… or mongodb+srv://HOST…"))
	}
	if !clusterName.MatchString(o.Cluster) {
		all = append(all, fmt.Errorf("cluster: %q, want 1 to 63 letters, digits, _ or -", o.Cluster))
	}
	if len(o.Database) > 63 || strings.ContainsAny(o.Database, badInDBNames) {
		all = append(all, fmt.Errorf("database: %q, want at most 63 bytes and none of %q", o.Database, badInDBNames))
	}
	if o.OperationTimeout < 0 {
		all = append(all, fmt.Errorf("operation timeout: %s, want above 0", o.OperationTimeout))
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return nil
}

// Schemes of a store's URI.
const (
	scheme    = "mongodb"
	schemeSRV = "mongodb+srv"
)

func init() {
	store.Register(scheme, registered{})
	store.Register(schemeSRV, registered{})
}

// registered is what the registry knows of MongoDB.
type registered struct{}

// Name implements [store.Driver].
func (registered) Name() string { return "mongodb" }

// Form implements [store.Driver].
func (registered) Form(of string) string {
	if of == schemeSRV {
		return of + "://HOST"
	}
	return of + "://HOST…"
}

var databaseName = regexp.MustCompile(`^[^/\\. "$*<>:|?\x00]{1,63}$`)

// Parse implements [store.Driver]. Its errors never quote the URI: it may hold a password, also where it is wrong.
func (registered) Parse(c store.Config) (store.Config, error) {
	c.Cluster = cmp.Or(c.Cluster, DefaultCluster)
	if wrong := checkURI(c.URI); wrong != "" {
		return c, &store.FieldError{Field: "uri", Text: wrong}
	}
	field := "database"
	if c.Database == "" {
		c.Database, field = cmp.Or(databaseOf(c.URI), DefaultDatabase), "uri"
	}
	if !databaseName.MatchString(c.Database) {
		return c, &store.FieldError{
			Field: field,
			Text:  `names a wrong database, must be at most 63 characters without / \ . " $ * < > : | ? and blanks`,
		}
	}
	if !clusterName.MatchString(c.Cluster) {
		return c, &store.FieldError{Field: "cluster", Text: "must be 1 to 63 letters, digits, _ or -"}
	}
	if isSRV(c.URI) {
		return c, nil // its options come from the DNS as well: Open looks at them
	}
	if _, err := connstring.ParseAndValidate(c.URI); err != nil {
		return c, &store.FieldError{
			Field: "uri", Text: "is refused by MongoDB's driver: " +
				storeuri.Scrub(err.Error(), secretParams.Of(c.URI)),
		}
	}
	return c, nil
}

// Redact implements [store.Driver].
func (registered) Redact(uri string) string { return Redact(uri) }

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

func isSRV(uri string) bool { return strings.HasPrefix(uri, schemeSRV+":") }

// checkURI says what is wrong with a URI, nothing when it looks right. The driver checks the rest, and quotes what it
// does not like.
func checkURI(uri string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		scheme, _, _ = strings.Cut(uri, ":")
		return "must be " + scheme + "://HOST"
	}
	hosts := rest[:endOfHosts(rest)]
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		if _, err := url.PathUnescape(hosts[:at]); err != nil {
			return "has a user or password with a % that no two hexadecimal digits follow: write it as %25"
		}
		hosts = hosts[at+1:]
	} else if strings.Contains(rest, "@") && strings.Contains(hosts, ":") && !hostsOK(hosts, scheme) {
		return "has a user or password with a /, ? or @ in it: write these as %2F, %3F and %40"
	}
	if hosts == "" {
		return "names no host, must be " + scheme + "://HOST"
	}
	if !hostsOK(hosts, scheme) {
		if scheme == schemeSRV {
			return "has wrong hosts, must be mongodb+srv://HOST with one host and no port"
		}
		return "has wrong hosts, must be mongodb://HOST[:PORT][,HOST[:PORT]…], and what is special in a user or " +
			"password written with %"
	}
	return ""
}

func endOfHosts(rest string) int {
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		return end
	}
	return len(rest)
}

var hostName = regexp.MustCompile(`^([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+(%25[^\]]+)?\]|[^:]*%2F[^:]*\.sock)$`)

func hostsOK(hosts, scheme string) bool {
	all := strings.Split(hosts, ",")
	if scheme == schemeSRV {
		return len(all) == 1 && hostName.MatchString(hosts)
	}
	for _, host := range all {
		if hostName.MatchString(host) {
			continue
		}
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			return false
		}
		if strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 || !hostName.MatchString(name) {
			return false
		}
	}
	return true
}

// databaseOf is the database that a URI names, if any.
func databaseOf(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	if at := strings.LastIndexByte(rest[:endOfHosts(rest)], '@'); at >= 0 {
		rest = rest[at+1:]
	}
	_, rest, _ = strings.Cut(rest, "/")
	name, _, _ := strings.Cut(rest, "?")
	return name
}

var secretParams = storeuri.Secrets{
	"authmechanismproperties", // AWS_SESSION_TOKEN
	"tlscertificatekeyfilepassword",
	"sslclientcertificatekeypassword",
	"proxypassword",
	"password",
}

// Redact returns a MongoDB URI that can be shown: passwords and other secrets are replaced by xxxxx. It takes URIs that
// are wrong as well, and then rather hides too much.
func Redact(uri string) string { return secretParams.Redact(uri) }

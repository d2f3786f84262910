package mongo

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// DefaultDatabase is the database of a URI that names none.
const DefaultDatabase = "shardctl"

// Options say which database to use, and how. The URI is mongodb://… or mongodb+srv://…; write concern, read concern,
// read preference and retries in it are overridden, since the protocol needs its own. The cluster names the
// collections: letters, digits, _ and -, at most 63. Give the timeout a sixth of the lease's duration: it also bounds
// the search for a primary. Existing needs the privilege find alone; changes are left to the server to refuse.
type Options = driver.Config

// Reasons of problems.
const (
	ReasonStandalone = "StoreStandalone" // no replica set: polling, and no second copy of the data
	ReasonArbiter    = "StoreArbiter"    // a member without data: one lost node may stop all writes
	ReasonSharding   = "StoreSharding"   // it could not be checked how the documents are sharded
	ReasonNotDurable = "StoreNotDurable" // a crash of a majority may lose what was read
)

// Schemes of a store's URI.
const (
	scheme    = "mongodb"
	schemeSRV = "mongodb+srv"
)

func init() {
	driver.Register(scheme, registered{})
	driver.Register(schemeSRV, registered{})
}

// registered is what the registry knows of MongoDB.
type registered struct{}

// Name implements [driver.Driver].
func (registered) Name() string { return "mongodb" }

// Form implements [driver.Driver].
func (registered) Form(of string) string {
	if of == schemeSRV {
		return of + "://HOST"
	}
	return of + "://HOST…"
}

var (
	clusterName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)
	databaseName = regexp.MustCompile(`^[^/\\. "$*<>:|?\x00]{1,63}$`)
)

// Parse implements [driver.Driver]. Its errors never quote the URI: it may hold a password, also where it is wrong.
func (registered) Parse(c driver.Config) (driver.Config, error) {
	c, err := dbstore.Complete(c)
	if err != nil {
		return c, err
	}
	if wrong := checkURI(c.URI); wrong != "" {
		return c, &driver.FieldError{Field: "uri", Text: wrong}
	}
	field := "database"
	if c.Database == "" {
		c.Database, field = cmp.Or(databaseOf(c.URI), DefaultDatabase), "uri"
	}
	if !databaseName.MatchString(c.Database) {
		return c, &driver.FieldError{
			Field: field,
			Text:  `names a wrong database, must be at most 63 characters without / \ . " $ * < > : | ? and blanks`,
		}
	}
	if !clusterName.MatchString(c.Cluster) {
		return c, &driver.FieldError{Field: "cluster", Text: "must be 1 to 63 letters, digits, _ or -"}
	}
	if isSRV(c.URI) {
		return c, nil // its options come from the DNS as well: Open looks at them
	}
	if _, err := connstring.ParseAndValidate(c.URI); err != nil {
		return c, &driver.FieldError{
			Field: "uri", Text: "is refused by MongoDB's driver: " +
				storeuri.Scrub(err.Error(), secretParams.Of(c.URI)),
		}
	}
	return c, nil
}

// Redact implements [driver.Driver].
func (registered) Redact(uri string) string { return Redact(uri) }

// SecretVariables implements [driver.SecretReader]: what the driver's two mechanisms without a password read.
func (registered) SecretVariables(c driver.Config) []string {
	switch found := mechanism.FindStringSubmatch(c.URI); {
	case found == nil:
		return nil
	case strings.EqualFold(found[1], "AWS"):
		return []string{
			"AWS_ACCESS_KEY_ID", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
			"AWS_WEB_IDENTITY_TOKEN_FILE",
		}
	default:
		return []string{"AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_FEDERATED_TOKEN_FILE"}
	}
}

// mechanism finds the mechanisms that take secrets from the environment. To parse the whole URI would ask the DNS.
var mechanism = regexp.MustCompile(`(?i)[?&]authMechanism=MONGODB-(AWS|OIDC)(?:&|$)`)

// Open implements [driver.Driver].
func (registered) Open(ctx context.Context, c driver.Config) (driver.Store, error) {
	return Open(ctx, c)
}

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

package zookeeper

import (
	"cmp"
	"context"
	"regexp"
	"strings"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// DefaultDatabase is the znode that holds the clusters, unless a [driver.Config] names another one.
const DefaultDatabase = "shardctl"

// Options say which ensemble to use, and how. The URI is zk://[USER:PASSWORD@]HOST[:PORT],…[/CHROOT] with the
// parameters tls, tlsCAFile, tlsCertFile and tlsKeyFile. Database is the znode below CHROOT, and the cluster the one
// below that. Give the timeout a sixth of the lease's duration. Existing needs the right to read alone.
type Options = driver.Config

const (
	scheme      = "zk"
	form        = scheme + "://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/CHROOT]"
	defaultPort = 2181
)

var (
	syntax = storeuri.Syntax{DefaultPort: defaultPort, TLS: true}
	// name of a znode that needs no escape; "zookeeper" is the servers' own
	databaseName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}$`)
	chroot       = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)
)

// parseURI reads a URI. Errors are a [driver.FieldError].
func parseURI(uri string) (storeuri.URI, error) {
	u, err := syntax.Parse(uri)
	if err != nil {
		return u, err
	}
	refuse := func(text string) (storeuri.URI, error) { return u, &driver.FieldError{Field: "uri", Text: text} }
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

func init() { driver.Register(scheme, registered{}) }

// registered is what the registry knows of ZooKeeper.
type registered struct{}

// Name implements [driver.Driver].
func (registered) Name() string { return "zookeeper" }

// Form implements [driver.Driver].
func (registered) Form(string) string { return scheme + "://HOST,…[/CHROOT]" }

// Parse implements [driver.Driver].
func (registered) Parse(c driver.Config) (driver.Config, error) {
	c, err := dbstore.Complete(c)
	if err != nil {
		return c, err
	}
	if _, err = parseURI(c.URI); err != nil {
		return c, err
	}
	c.Database = cmp.Or(c.Database, DefaultDatabase)
	if !databaseName.MatchString(c.Database) || c.Database == "zookeeper" {
		return c, &driver.FieldError{
			Field: "database", Text: "must be 1 to 63 letters, digits, '.', '-' and '_', not begin with '.', and not " +
				"be zookeeper",
		}
	}
	return c, nil
}

// Redact implements [driver.Driver].
func (registered) Redact(uri string) string { return storeuri.Secrets(nil).Redact(uri) }

// Open implements [driver.Driver].
func (registered) Open(ctx context.Context, c driver.Config) (driver.Store, error) {
	return Open(ctx, c)
}

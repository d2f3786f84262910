package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"regexp"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// DefaultPrefix begins all keys, unless the URI or a [driver.Config] names another prefix.
const DefaultPrefix = "shardctl"

// Options say which etcd to use, and how. The URI is etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PREFIX] with
// the parameters tls, tlsCAFile, tlsCertFile and tlsKeyFile. Name all members: they are used one at a time. Database is
// the prefix, and the cluster follows it: letters, digits, '.', '-' and '_', at most 63. Give the timeout a sixth of
// the lease's duration. Existing needs the right to read alone.
type Options = driver.Config

// Reasons of problems.
const (
	ReasonNotCompacted = "StoreNotCompacted" // without compaction it grows until it refuses writes
	ReasonNearlyFull   = "StoreNearlyFull"   // near --quota-backend-bytes, where it refuses writes, or an alarm
	ReasonPolled       = "StorePolled"       // the user may not watch: polling
)

const (
	scheme      = "etcd"
	defaultPort = 2379
)

var (
	syntax     = storeuri.Syntax{DefaultPort: defaultPort, TLS: true}
	secrets    = storeuri.Secrets{}
	prefixName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)
)

// settings are options that were read.
type settings struct {
	Options

	uri   storeuri.URI
	files storeuri.TLSFiles
}

// login is who logs in, and how connections are secured.
type login struct {
	user, password string
	tls            *tls.Config // nil: no TLS
}

// newSource reads the URI of a configuration, and the files that it names.
func newSource(o Options) (*storeuri.Source[login], error) {
	return storeuri.NewSource(o, secrets, func(uri string) (login, error) {
		now := o
		now.URI = uri
		s, err := read(now)
		if err != nil {
			return login{}, err
		}
		config, err := s.files.Config()
		return login{s.uri.User, s.uri.Password, config}, err
	})
}

// read looks at all that needs neither network nor disk. Errors wrap [driver.ErrInvalid].
func read(o Options) (s settings, err error) {
	if s.Options, err = dbstore.Complete(o); err != nil {
		return s, err
	}
	if s.uri, err = syntax.Parse(o.URI); err != nil {
		return s, err
	}
	if s.files, err = s.uri.TLS(false); err != nil {
		return s, err
	}
	field := "database"
	if s.Database == "" {
		s.Database, field = cmp.Or(s.uri.Path, DefaultPrefix), "uri"
	}
	if !prefixName.MatchString(s.Database) {
		return s, &driver.FieldError{
			Field: field, Text: "names a wrong prefix, must be at most 63 letters, digits, '.', '-' and '_'",
		}
	}
	if (s.uri.User == "") != (s.uri.Password == "") {
		return s, &driver.FieldError{Field: "uri", Text: "has a user or a password alone, must be USER:PASSWORD@"}
	}
	return s, nil
}

// endpoints are the URLs of the members.
func (s settings) endpoints() []string {
	of := "http://"
	if s.files.On {
		of = "https://"
	}
	all := make([]string, len(s.uri.Hosts))
	for i, host := range s.uri.Hosts {
		all[i] = of + host
	}
	return all
}

func init() { driver.Register(scheme, registered{}) }

// registered is what the registry knows of etcd.
type registered struct{}

// Name implements [driver.Driver].
func (registered) Name() string { return "etcd" }

// Form implements [driver.Driver].
func (registered) Form(of string) string { return of + "://HOST…" }

// Parse implements [driver.Driver].
func (registered) Parse(c driver.Config) (driver.Config, error) {
	s, err := read(c)
	return s.Options, err
}

// Redact implements [driver.Driver].
func (registered) Redact(uri string) string { return secrets.Redact(uri) }

// Open implements [driver.Driver].
func (registered) Open(ctx context.Context, c driver.Config) (driver.Store, error) {
	return Open(ctx, c)
}

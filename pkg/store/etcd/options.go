package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"regexp"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// Defaults of [Options].
const (
	DefaultPrefix  = "shardctl"
	DefaultTimeout = 3 * time.Second // about a sixth of the default lease
)

// Options say which etcd to use, and how.
type Options struct {
	// URI is etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/PREFIX][?tls=true&tlsCAFile=…&tlsCertFile=…&
	// tlsKeyFile=…]. Name all members: they are used one at a time. Required.
	URI string
	// Prefix begins all keys, letters, digits, '.', '-' and '_', at most 63. Default: the URI's, else DefaultPrefix.
	Prefix string
	// Cluster follows it, so that several clusters can share one etcd: as Prefix. Default: default.
	Cluster string
	// Timeout bounds calls whose context has no deadline. Give it a sixth of the lease's duration. Default:
	// DefaultTimeout.
	Timeout time.Duration
	// Existing opens what was set up before, for a few calls: nothing is written, and the right to read is enough to
	// open it.
	Existing bool
	// Logger gets broken watches and unreadable documents. Default: none.
	Logger logr.Logger

	dial []grpc.DialOption // of tests
}

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

// read looks at all that needs neither network nor disk. Errors are a [store.FieldError].
func (o Options) read() (s settings, err error) {
	if s.uri, err = syntax.Parse(o.URI); err != nil {
		return s, err
	}
	if s.files, err = s.uri.TLS(false); err != nil {
		return s, err
	}
	field := "database"
	if o.Prefix == "" {
		o.Prefix, field = cmp.Or(s.uri.Path, DefaultPrefix), "uri"
	}
	if !prefixName.MatchString(o.Prefix) {
		return s, &store.FieldError{
			Field: field, Text: "names a wrong prefix, must be at most 63 letters, digits, '.', '-' and '_'",
		}
	}
	if (s.uri.User == "") != (s.uri.Password == "") {
		return s, &store.FieldError{Field: "uri", Text: "has a user or a password alone, must be USER:PASSWORD@"}
	}
	if o.Cluster, err = engine.Cluster(o.Cluster); err != nil {
		return s, err
	}
	if o.Timeout < 0 {
		return s, fmt.Errorf("%w: timeout: %s, want above 0", store.ErrInvalid, o.Timeout)
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	s.Options = o
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

func (s settings) tls() (*tls.Config, error) { return s.files.Config() }

func init() { store.Register(scheme, registered{}) }

// registered is what the registry knows of etcd.
type registered struct{}

// Name implements [store.Driver].
func (registered) Name() string { return "etcd" }

// Form implements [store.Driver].
func (registered) Form(of string) string { return of + "://HOST…" }

// Parse implements [store.Driver].
func (registered) Parse(c store.Config) (store.Config, error) {
	s, err := options(c).read()
	if err == nil {
		c.Database, c.Cluster = s.Prefix, s.Cluster
	}
	return c, err
}

func options(c store.Config) Options {
	return Options{
		URI: c.URI, Prefix: c.Database, Cluster: c.Cluster, Timeout: c.Timeout, Existing: c.Existing, Logger: c.Logger,
	}
}

// Redact implements [store.Driver].
func (registered) Redact(uri string) string { return secrets.Redact(uri) }

// Open implements [store.Driver].
func (registered) Open(ctx context.Context, c store.Config) (store.Store, error) {
	return Open(ctx, options(c))
}

// Obstructs implements [store.Driver]: no client holds up a server.
func (registered) Obstructs(store.Config, int) (bool, error) { return false, nil }

// Limits implements [store.Driver].
func (registered) Limits() store.Limits { return store.Limits{} }

package postgres

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// scheme of a store's URI.
const scheme = "postgres"

// DefaultDatabase is the database of a URI that names none.
const DefaultDatabase = "shardctl"

const defaultPort = 5432

func init() { store.Register(scheme, driver{}) }

// syntax is that of libpq's URIs, as far as it is of use here.
var syntax = storeuri.Syntax{DefaultPort: defaultPort, Params: []string{
	"application_name", "connect_timeout", "options", "search_path", "sslcert", "sslkey", "sslmode", "sslnegotiation",
	"sslpassword", "sslrootcert", "sslsni", paramPoll,
}}

// paramPoll has watches look at intervals, and no change notify. The driver and the server do not know it.
const (
	paramPoll        = "pollMillis"
	minPoll, maxPoll = 5 * time.Millisecond, time.Minute
)

// poll is what a URI says of it; 0: nothing.
func poll(u storeuri.URI) (time.Duration, error) {
	ms, err := u.Whole(paramPoll, 0, int(minPoll.Milliseconds()), int(maxPoll.Milliseconds()))
	return time.Duration(ms) * time.Millisecond, err
}

// secretParams are the parameters of a URI that carry secrets.
var secretParams = storeuri.Secrets{"sslpassword", "password"}

var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// driver is what the registry knows of PostgreSQL.
type driver struct{}

// Name implements [store.Driver].
func (driver) Name() string { return "postgresql" }

// Form implements [store.Driver].
func (driver) Form(scheme string) string { return scheme + "://HOST…" }

// Parse implements [store.Driver].
func (driver) Parse(c store.Config) (store.Config, error) {
	u, err := syntax.Parse(c.URI)
	if err != nil {
		return c, err
	}
	if mode := cmp.Or(u.Param("sslmode"), sslModes[0]); !slices.Contains(sslModes, mode) {
		return c, &store.FieldError{
			Field: "uri", Text: "has a wrong sslmode, must be one of " + strings.Join(sslModes, ", "),
		}
	}
	if _, err := u.Whole("connect_timeout", 0, 1, 300); err != nil {
		return c, err
	}
	if _, err := poll(u); err != nil {
		return c, err
	}
	field := "database"
	if c.Database == "" {
		c.Database, field = cmp.Or(u.Path, DefaultDatabase), "uri"
	}
	if len(c.Database) > maxName || strings.ContainsAny(c.Database, "/\x00") {
		return c, &store.FieldError{Field: field, Text: "names a wrong database, must be at most 63 bytes without /"}
	}
	c.Cluster, err = engine.Cluster(c.Cluster)
	return c, err
}

// Redact implements [store.Driver].
func (driver) Redact(uri string) string { return secretParams.Redact(uri) }

// Open implements [store.Driver].
func (driver) Open(ctx context.Context, c store.Config) (store.Store, error) {
	return Open(ctx, Options{
		URI: c.URI, Database: c.Database, Cluster: c.Cluster, Timeout: c.Timeout, Existing: c.Existing,
		Logger: c.Logger,
	})
}

// Obstructs implements [store.Driver]: no client holds up a server.
func (driver) Obstructs(store.Config, int) (bool, error) { return false, nil }

// Limits implements [store.Driver].
func (driver) Limits() store.Limits { return store.Limits{} }

// hosts are those of a configuration, once each and in their order.
func hosts(config *pgx.ConnConfig) string {
	all := []string{net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))}
	for _, f := range config.Fallbacks {
		if host := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))); !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return strings.Join(all, ",")
}

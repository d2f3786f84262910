package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// Schemes of a store's URI.
const (
	scheme         = "redis"
	schemeTLS      = "rediss"
	schemeSentinel = "redis+sentinel"
	schemeCluster  = "redis+cluster"
)

const (
	portRedis    = 6379
	portSentinel = 26379

	paramNodes            = "nodes"
	paramDB               = "db"
	paramSentinelUser     = "sentinelUser"
	paramSentinelPassword = "sentinelPassword"

	maxNodes = 99
	maxDB    = 1<<31 - 1
)

// target is what a URI and the settings beside it say.
type target struct {
	hosts            []string // of Redis, of Sentinels, or of nodes of a cluster
	master           string   // the name that Sentinels know the master by; empty: no Sentinels
	cluster          bool
	user, password   string
	sentinelUser     string
	sentinelPassword string
	db               int
	nodes            int // how many servers hold the data, the master among them
	files            storeuri.TLSFiles
	tls              *tls.Config // by the files; nil: no TLS
}

func secrets() storeuri.Secrets { return storeuri.Secrets{"sentinelpassword"} }

func form(of string) string {
	switch of {
	case schemeSentinel:
		return of + "://HOST[,HOST…]/MASTERNAME?nodes=N"
	case schemeCluster:
		return of + "://HOST[,HOST…]?nodes=N"
	}
	return of + "://HOST"
}

// newSource reads the URI of a configuration, and the files that it names.
func newSource(c driver.Config) (*storeuri.Source[target], error) {
	return storeuri.NewSource(c, secrets(), func(uri string) (target, error) {
		now := c
		now.URI = uri
		t, err := parseTarget(now)
		if err == nil {
			t.tls, err = t.files.Config()
		}
		return t, err
	})
}

// parseTarget reads a URI. Errors are a [driver.FieldError].
func parseTarget(c driver.Config) (target, error) {
	syntax := storeuri.Syntax{DefaultPort: portRedis, OneHost: true, Params: []string{paramNodes, paramDB}, TLS: true}
	scheme := schemeOf(c.URI)
	switch scheme {
	case schemeSentinel:
		syntax.DefaultPort, syntax.OneHost = portSentinel, false
		syntax.Params = append(syntax.Params, paramSentinelUser, paramSentinelPassword)
	case schemeCluster:
		syntax.OneHost = false
	}
	u, err := syntax.Parse(c.URI)
	if err != nil {
		return target{}, err
	}
	t := target{
		hosts: u.Hosts, cluster: scheme == schemeCluster, user: u.User, password: u.Password,
		sentinelUser: u.Param(paramSentinelUser), sentinelPassword: u.Param(paramSentinelPassword),
	}
	if t.files, err = u.TLS(scheme == schemeTLS); err != nil {
		return target{}, err
	}
	path, err := t.setMaster(scheme, u)
	if err != nil {
		return target{}, err
	}
	if err := t.setNodes(scheme, u); err != nil {
		return target{}, err
	}
	return t, t.setDB(u, path, c.Database)
}

// setMaster takes the master's name from the path. What is left of the path is the database's number.
func (t *target) setMaster(scheme string, u storeuri.URI) (path string, err error) {
	if scheme != schemeSentinel {
		return u.Path, nil
	}
	if u.Path == "" {
		return "", wrongURI("names no master, must be " + form(scheme))
	}
	t.master = u.Path
	return "", nil
}

// setNodes: one server alone needs no number. Where there are replicas it cannot be guessed, and majorities hang on it.
func (t *target) setNodes(scheme string, u storeuri.URI) (err error) {
	alone := scheme != schemeSentinel && scheme != schemeCluster
	if !alone && u.Param(paramNodes) == "" {
		return wrongURI("says not how many Redis servers hold the data, the master among them: add nodes=N, as in " +
			form(scheme))
	}
	t.nodes, err = u.Whole(paramNodes, 1, 1, maxNodes)
	return err
}

// setDB takes the number of the database from the settings, the path or the parameter, which must not differ.
func (t *target) setDB(u storeuri.URI, path, database string) error {
	chosen := ""
	for _, from := range []struct{ field, text string }{
		{"database", database}, {"uri", path}, {"uri", u.Param(paramDB)},
	} {
		if from.text == "" {
			continue
		}
		n, err := strconv.Atoi(from.text)
		if err != nil || n < 0 || n > maxDB {
			return &driver.FieldError{Field: from.field, Text: "must name Redis's database by its number, such as 0"}
		}
		if chosen != "" && chosen != from.text {
			return wrongURI("names another database than the settings, or two of them")
		}
		chosen, t.db = from.text, n
	}
	if t.cluster && t.db != 0 {
		return wrongURI(fmt.Sprintf("names database %d, and a Redis cluster has database 0 only", t.db))
	}
	return nil
}

func wrongURI(text string) error { return &driver.FieldError{Field: "uri", Text: text} }

func init() {
	for _, of := range []string{scheme, schemeTLS, schemeSentinel, schemeCluster} {
		driver.Register(of, registered{})
	}
}

// driver is what the registry knows of Redis.
type registered struct{}

// Name implements [driver.Driver].
func (registered) Name() string { return "redis" }

// Form implements [driver.Driver].
func (registered) Form(of string) string { return form(of) }

func schemeOf(uri string) string {
	of, _, _ := strings.Cut(uri, ":")
	return of
}

// Parse implements [driver.Driver].
func (registered) Parse(c driver.Config) (_ driver.Config, err error) {
	if c, err = dbstore.Complete(c); err != nil {
		return c, err
	}
	_, err = parseTarget(c)
	return c, err
}

// Forgets is for [driver.Forgets]: a replica that becomes the master may lack what the former one acknowledged.
func (registered) Forgets(c driver.Config) string {
	t, err := parseTarget(c)
	switch {
	case err != nil:
		return ""
	case t.master != "":
		return "Sentinel may make a replica of Redis the master; name one server by " + form(scheme)
	case t.cluster:
		return "a Redis cluster may make a replica the master; name one server by " + form(scheme)
	case t.nodes > 1:
		return "it has replicas (nodes=" + strconv.Itoa(t.nodes) + "), and one may be made the master; leave nodes out"
	}
	return ""
}

// Redact implements [driver.Driver].
func (registered) Redact(uri string) string { return Redact(uri) }

// Open implements [driver.Driver].
func (registered) Open(ctx context.Context, c driver.Config) (driver.Store, error) {
	return Open(ctx, c)
}

// Redact returns a URI of this package that can be shown: its passwords are replaced by xxxxx. It takes URIs that are
// wrong as well, and then rather hides too much.
func Redact(uri string) string { return secrets().Redact(uri) }

// keyspace names the keys of a cluster. What stands in braces alone decides on which shard a key is.
type keyspace struct{ prefix string }

func newKeyspace(cluster string) keyspace { return keyspace{"shardctl:{" + cluster + "}:"} }

func (k keyspace) state() string { return k.prefix + "state" }
func (k keyspace) gate() string  { return k.prefix + "gate" }

// channel is where changes are published. Channels are those of a server, not of one of its databases.
func (k keyspace) channel(db int) string {
	if db == 0 {
		return k.prefix + "changes"
	}
	return k.prefix + "changes:" + strconv.Itoa(db)
}

// of are the keys of a kind, in the order that scripts expect.
func (k keyspace) of(kind driver.Kind) []string {
	docs := k.prefix + kind.Info().Plural
	return []string{
		k.state(), k.gate(), docs, docs + ":ids", docs + ":groups", docs + ":revisions", docs + ":sessions",
		docs + ":expiry",
	}
}

// indexes are those that a kind has besides that on ids, a letter each.
func indexes(kind driver.Kind) string {
	var letters strings.Builder
	for _, fields := range kind.Info().Indexes {
		switch {
		case fields[0] == driver.FieldGroup && fields[1] == driver.FieldID:
			letters.WriteByte('g')
		case fields[0] == driver.FieldGroup && fields[1] == driver.FieldRev:
			letters.WriteByte('r')
		case fields[0] == driver.FieldSession:
			letters.WriteByte('s')
		case fields[0] == driver.FieldExpires:
			letters.WriteByte('e')
		}
	}
	return letters.String()
}

// notified says in a word which changes of a kind are notified.
func notified(kind driver.Kind) string {
	switch kind.Info().Notify {
	case driver.NotifyAlways:
		return "always"
	case driver.NotifyStates:
		return "states"
	case driver.NotifyFree:
		return "free"
	case driver.NotifyNever:
	}
	return "never"
}

package redis

import (
	"context"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

func init() {
	for _, of := range []string{scheme, schemeTLS, schemeSentinel, schemeCluster} {
		store.Register(of, driver{})
	}
}

// driver is what the registry knows of Redis.
type driver struct{}

// Name implements [store.Driver].
func (driver) Name() string { return "redis" }

// Form implements [store.Driver].
func (driver) Form(of string) string { return form(of) }

func schemeOf(uri string) string {
	of, _, _ := strings.Cut(uri, ":")
	return of
}

// Parse implements [store.Driver].
func (driver) Parse(c store.Config) (_ store.Config, err error) {
	if c.Cluster, err = engine.Cluster(c.Cluster); err != nil {
		return c, err
	}
	_, err = parseTarget(c)
	return c, err
}

// Forgets is for [store.Forgets]: a replica that becomes the master may lack what the former one acknowledged.
func (driver) Forgets(c store.Config) string {
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

// Redact implements [store.Driver].
func (driver) Redact(uri string) string { return Redact(uri) }

// Open implements [store.Driver].
func (driver) Open(ctx context.Context, c store.Config) (store.Store, error) {
	return Open(ctx, c)
}

// Obstructs implements [store.Driver]: no client holds up a server.
func (driver) Obstructs(store.Config, int) (bool, error) { return false, nil }

// Limits implements [store.Driver].
func (driver) Limits() store.Limits { return store.Limits{} }

// Redact returns a URI of this package that can be shown: its passwords are replaced by xxxxx. It takes URIs that are
// wrong as well, and then rather hides too much.
func Redact(uri string) string { return secrets().Redact(uri) }

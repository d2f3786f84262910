package etcd

import (
	"context"

	"github.com/shardctl/shardctl/pkg/store"
)

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

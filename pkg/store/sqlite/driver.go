package sqlite

import (
	"context"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

func init() { store.Register(Scheme, driver{}) }

// driver is what the registry knows of SQLite.
type driver struct{}

// Name implements [store.Driver].
func (driver) Name() string { return "sqlite" }

// Form implements [store.Driver].
func (driver) Form(scheme string) string { return scheme + ":PATH" }

// Parse implements [store.Driver]. There are no databases to choose from.
func (driver) Parse(c store.Config) (store.Config, error) {
	if _, err := parse(c.URI); err != "" {
		return c, &store.FieldError{Field: "uri", Text: err}
	}
	var err error
	c.Cluster, err = engine.Cluster(c.Cluster)
	return c, err
}

// Redact implements [store.Driver]: a path is no secret.
func (driver) Redact(uri string) string { return uri }

// Open implements [store.Driver].
func (driver) Open(ctx context.Context, c store.Config) (store.Store, error) {
	path, err := ParseURI(c.URI)
	if err != nil {
		return nil, err
	}
	return Open(ctx, path, Options{Cluster: c.Cluster, Existing: c.Existing, Logger: c.Logger})
}

// Obstructs implements [store.Driver]: the file has one lock for all writers.
func (driver) Obstructs(c store.Config, pid int) (bool, error) {
	path, err := ParseURI(c.URI)
	if err != nil {
		return false, err
	}
	return HoldsWriteLock(path, pid)
}

// Limits implements [store.Driver].
func (driver) Limits() store.Limits {
	return store.Limits{OneMachine: true, URI: func(path string) string { return Scheme + ":" + path }}
}

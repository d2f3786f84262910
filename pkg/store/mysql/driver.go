package mysql

import (
	"context"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

func init() { store.Register(Scheme, registered{}) }

// registered is what the registry knows of MySQL and MariaDB.
type registered struct{}

// Name implements [store.Driver].
func (registered) Name() string { return "mysql" }

// Form implements [store.Driver].
func (registered) Form(scheme string) string { return scheme + "://USER@HOST/DATABASE" }

// Parse implements [store.Driver]. Its errors never quote the URI.
func (registered) Parse(c store.Config) (store.Config, error) {
	t, err := parse(c.URI, c.Database)
	if err != nil {
		return c, err
	}
	c.Database = t.database
	c.Cluster, err = engine.Cluster(c.Cluster)
	return c, err
}

// Redact implements [store.Driver].
func (registered) Redact(uri string) string { return Redact(uri) }

// Open implements [store.Driver].
func (registered) Open(ctx context.Context, c store.Config) (store.Store, error) {
	return Open(ctx, c.URI, Options{
		Database: c.Database, Cluster: c.Cluster, Timeout: c.Timeout, Existing: c.Existing, Logger: c.Logger,
	})
}

// Obstructs implements [store.Driver]: a transaction is one text, which no client can hold up.
func (registered) Obstructs(store.Config, int) (bool, error) { return false, nil }

// Limits implements [store.Driver].
func (registered) Limits() store.Limits { return store.Limits{} }

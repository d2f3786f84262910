package zookeeper

import (
	"cmp"
	"context"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

const (
	scheme = "zk"
	form   = scheme + "://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/CHROOT]"
)

func init() { store.Register(scheme, registered{}) }

// registered is what the registry knows of ZooKeeper.
type registered struct{}

// Name implements [store.Driver].
func (registered) Name() string { return "zookeeper" }

// Form implements [store.Driver].
func (registered) Form(string) string { return scheme + "://HOST,…[/CHROOT]" }

// Parse implements [store.Driver].
func (registered) Parse(c store.Config) (store.Config, error) {
	c.Database = cmp.Or(c.Database, DefaultDatabase)
	var err error
	if c.Cluster, err = engine.Cluster(c.Cluster); err != nil {
		return c, err
	}
	if _, err := parseURI(c.URI); err != nil {
		return c, err
	}
	return c, checkDatabase(c.Database)
}

// Redact implements [store.Driver].
func (registered) Redact(uri string) string { return storeuri.Secrets(nil).Redact(uri) }

// Open implements [store.Driver].
func (registered) Open(ctx context.Context, c store.Config) (store.Store, error) {
	return Open(ctx, Options{
		URI: c.URI, Database: c.Database, Cluster: c.Cluster, OperationTimeout: c.Timeout, Existing: c.Existing,
		Logger: c.Logger,
	})
}

// Obstructs implements [store.Driver]: no client holds up a server.
func (registered) Obstructs(store.Config, int) (bool, error) { return false, nil }

// Limits implements [store.Driver].
func (registered) Limits() store.Limits { return store.Limits{} }

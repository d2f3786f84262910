package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/config"
	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	_ "github.com/shardctl/shardctl/pkg/store/etcd" // registers a kind of URI, as the other stores do
	_ "github.com/shardctl/shardctl/pkg/store/mongo"
	_ "github.com/shardctl/shardctl/pkg/store/mysql"
	_ "github.com/shardctl/shardctl/pkg/store/postgres"
	_ "github.com/shardctl/shardctl/pkg/store/quorum"
	_ "github.com/shardctl/shardctl/pkg/store/redis"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
	_ "github.com/shardctl/shardctl/pkg/store/zookeeper"
)

func storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Check what a store promises, move a stopped cluster to another one, set up or mend a quorum",
		Long: `Commands about the database that the cluster's locks are in.

A URI may hold a password, and arguments can be seen by other users of the machine. So a URI may hold variables, in
single quotes: '$(NAME)' of the environment, and '$(file:PATH)'.`,
		Example: `  shardctl store check --config shardctl.yaml
  shardctl store copy '$(OLD_STORE_URI)' '$(NEW_STORE_URI)'`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(storeCheckCommand(), storeCopyCommand(), storeInitCommand(), storeReadmitCommand())
	return cmd
}

// storeConfig is the store that an argument names.
func storeConfig(uri, database, cluster string) (store.Config, error) {
	expanded, err := variables.Expand(uri, os.LookupEnv)
	if err != nil {
		return store.Config{}, usage("the store's URI: %w", err)
	}
	c, err := driver.Parse(store.Config{URI: expanded, Database: database, Cluster: cluster, Logger: logr.Discard()})
	c.Renew = config.Renewal(uri, os.LookupEnv)
	if wrong, ok := errors.AsType[*store.FieldError](err); ok {
		return c, usage("the store's %s %s", wrong.Field, wrong.Text)
	}
	if err != nil {
		return c, usage("%w", err)
	}
	return c, nil
}

// storeFailed gives an error of a store its exit code: 2 where another URI, another user or another program is needed.
func storeFailed(err error) error {
	if errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrSchema) {
		return cli.Exit{Code: cli.CodeUsage, Err: err}
	}
	return err
}

// shownStore names a store for people.
func shownStore(c store.Config) string {
	d, err := driver.Lookup(c.URI)
	if err != nil {
		return "the store"
	}
	name := d.Redact(c.URI)
	if c.Database != "" {
		name += fmt.Sprintf(" (database %s)", c.Database)
	}
	return fmt.Sprintf("%s, cluster %s", name, c.Cluster)
}

// offline shows what the store says, without a replica.
func offline(ctx context.Context, paths []string) (found *snapshot.Cluster, err error) {
	err = reading(ctx, paths, func(s *settings.Settings, db store.Store) error {
		found, err = view.NewOffline(s, db).Snapshot(ctx, options.Version, time.Now())
		return err
	})
	return found, err
}

// past shows what the store keeps of events and runs, without a replica.
func past(ctx context.Context, paths []string, use func(snapshot.StoreSource) error) error {
	return reading(ctx, paths, func(s *settings.Settings, db store.Store) error {
		return use(view.NewOffline(s, db))
	})
}

// reading opens the store for as long as use goes on. An empty one looks as if no task had ever run: nothing is made.
func reading(ctx context.Context, paths []string, use func(*settings.Settings, store.Store) error) error {
	s, err := load(paths)
	if err != nil {
		return err
	}
	c := s.StoreConfig(logr.Discard())
	c.Existing = true
	db, err := store.Open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	return use(s.Settings, db)
}

// changeStore carries a request out on the store, without a replica.
func changeStore(
	ctx context.Context, paths []string, r operate.Request, about func(*snapshot.Cluster) ([]string, error),
	preview bool,
) (api.ChangeResult, error) {
	s, err := load(paths)
	if err != nil {
		return api.ChangeResult{}, err
	}
	db, err := openToRun(ctx, s.StoreConfig(logr.Discard()))
	if err != nil {
		return api.ChangeResult{}, err
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	return operate.ChangeStore(ctx, s.Settings, db, r, about, preview)
}

package program

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// openToRun opens a store that tasks may run on. Electors look as well, before their first claim; this is where people
// are informed.
func openToRun(ctx context.Context, c store.Config) (store.Store, error) {
	db, err := store.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := record.CheckMoved(ctx, db); err != nil {
		_ = db.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("%s: %w", shownStore(c), err)
	}
	return db, nil
}

// hooked is the store that this program works with. A build for tests can have it write what a later version might.
var hooked = func(db store.Store) store.Store { return db }

// obstructs says whether a process keeps all others from writing to the store that the settings name.
func obstructs(s *settings.Settings, pid int) bool {
	blocks, err := driver.BlocksWriters(s.StoreConfig(logr.Discard()), pid)
	return blocks && err == nil
}

package subscribe_test

import (
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// What sources keep a position in is a lease, that of a run, and one that shares writes.
var (
	_ subscribe.Checkpoint = (*elect.Lease)(nil)
	_ subscribe.Checkpoint = (*elect.Batched)(nil)
	_ subscribe.Checkpoint = tasks.Lease(nil)
)

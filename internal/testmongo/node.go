//go:build unix

package testmongo

import (
	"context"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// A Node is one mongod. Its methods may be called concurrently.
type Node struct {
	*testprocess.Server
	rs *ReplicaSet
}

// Restart kills the process, if it runs, and starts it again on the same data and port. It returns once it takes
// connections.
func (n *Node) Restart(ctx context.Context) error {
	n.Kill()
	return n.Start(ctx)
}

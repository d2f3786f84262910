package subscribe

import (
	"context"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// checkpoint is a lease's value.
type checkpoint struct{ lease tasks.Lease }

func (c checkpoint) Value(ctx context.Context) ([]byte, error) {
	value, _, err := c.lease.Load(ctx)
	return value, err
}

func (c checkpoint) SetValue(ctx context.Context, value []byte) error {
	return c.lease.Save(ctx, value)
}

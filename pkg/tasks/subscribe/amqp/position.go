package amqp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// position is what the checkpoint holds: how far a stream was read. A queue has attempts there, and no position.
type position struct {
	Stream string `json:"stream"` // or queue
	Next   int64  `json:"next"`   // offset of the first message that is not acknowledged
	// Attempts at messages from there on are JSON of package attempts: by offset, or in a queue by ID.
	Attempts json.RawMessage `json:"attempts,omitempty"`
}

// readPosition is nil where none was kept, or one of another stream: the task then reads a new one.
func readPosition(ctx context.Context, checkpoint subscribe.Checkpoint, stream string) (*position, error) {
	value, err := checkpoint.Value(ctx)
	if err != nil {
		return nil, fmt.Errorf("stream %q: read the position: %w", stream, err)
	}
	if len(value) == 0 {
		return nil, nil //nolint:nilnil // nothing was kept, and nothing is wrong
	}
	var p position
	if err := json.Unmarshal(value, &p); err != nil || p.Stream == "" || p.Next < 0 {
		return nil, fmt.Errorf("stream %q: %w: the position kept with the task's lock is not one of a stream: "+
			"give the task another name, or remove what is kept", stream, subscribe.ErrStop)
	}
	if p.Stream != stream {
		return nil, nil //nolint:nilnil // as above
	}
	return &p, nil
}

// keep returns once the position is kept.
func (p position) keep(ctx context.Context, checkpoint subscribe.Checkpoint) error {
	value, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("stream %q: %w", p.Stream, err)
	}
	if err := checkpoint.SetValue(ctx, value); err != nil {
		return fmt.Errorf("stream %q: keep offset %d: %w", p.Stream, p.Next, err)
	}
	return nil
}

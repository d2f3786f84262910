package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/pkg/internal/wallclock"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// Lag counts the offsets between what was acknowledged and the end of the log: of what is readable, where
// transactions are open. Offsets that hold no message (compacted, aborted) count until the position is past them.
// Seconds are the age of the oldest message that was received and not acknowledged; not known where messages wait at
// the broker alone.
func (s *subscription) Lag(ctx context.Context) (subscribe.Lag, error) {
	if absent := *s.absent.Load(); len(absent) > 0 {
		return subscribe.Unknown, s.worded(absent)
	}
	isolation := int8(0)
	if s.isolation == kgo.ReadCommitted() {
		isolation = 1
	}
	ends, err := listOffsets(ctx, s.client, s.topic, s.places.partitions(), atEnd, isolation)
	if err != nil {
		return subscribe.Unknown, s.worded(err)
	}
	behind, oldest := s.places.behind(ends)
	lag := subscribe.Lag{Messages: behind, Seconds: subscribe.Unknown.Seconds}
	switch {
	case behind == 0:
		lag.Seconds = 0
	case !oldest.IsZero():
		lag.Seconds = max(0, wallclock.Now().Sub(oldest).Seconds())
	}
	return lag, nil
}

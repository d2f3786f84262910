package subscribe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

const (
	// ackTimeout is how long a broker may take to confirm an acknowledgement. After that the subscription is opened
	// again.
	ackTimeout = 10 * time.Second
	// ackPause is the least time between the beginnings of two acknowledgements, while more can gather. A broker
	// confirms many at once for the price of one.
	ackPause = 5 * time.Millisecond
)

// mostKept is how many messages of a partition have their attempts kept: those that were tried most often.
const mostKept = 16

// committer acknowledges messages and keeps attempts, in one call at a time. The feed's goroutine owns it, but for
// commit.
type committer struct {
	work    context.Context //nolint:containedctx // of the run
	lease   tasks.Lease
	sub     Subscription
	keeping Keeping // nil: attempts are not kept
	acked   chan acked
	busy    bool
	began   time.Time // when the last acknowledgement did
}

type acked struct {
	items  []*flow.Item[Message]
	err    error
	unkept error // why attempts were not kept
}

// take takes out of the flow what is to be acknowledged and kept now. If there is nothing, due is when to ask again.
func (c *committer) take(f *flow.Flow[Message], now time.Time) (
	items []*flow.Item[Message], failing []Message, due time.Time,
) {
	if f.Unacknowledged() {
		if due = c.began.Add(ackPause); !f.Gathers() || !now.Before(due) {
			items, c.began = f.Acks(), now
		}
	}
	if c.keeping == nil {
		return items, nil, due
	}
	switch keep := f.Keep(now); {
	case keep.Equal(now):
		failing = attempts(f.Failing(), f.Halted())
	case due.IsZero() || !keep.IsZero() && keep.Before(due):
		due = keep
	}
	return items, failing, due
}

// unkept says that there are attempts to be kept.
func (c *committer) unkept(f *flow.Flow[Message]) bool { return c.keeping != nil && f.Unkept() }

// commit acknowledges items and keeps the attempts of failing messages.
func (c *committer) commit(items []*flow.Item[Message], failing []Message) {
	c.acked <- acked{items, c.ack(items), c.keep(failing)}
}

// whileOwned ends with the lease, or when the broker has had time to answer.
func (c *committer) whileOwned() (context.Context, context.CancelFunc) {
	within, end := context.WithTimeout(c.work, ackTimeout)
	ctx, cancel := context.WithDeadlineCause(within, c.lease.Deadline(), elect.ErrLeaseLost)
	return ctx, func() { cancel(); end() }
}

// keep keeps attempts, unless the lease ends before.
func (c *committer) keep(messages []Message) error {
	if len(messages) == 0 {
		return nil
	}
	ctx, cancel := c.whileOwned()
	defer cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.keeping.KeepDelivered(ctx, messages)
}

// ack acknowledges messages, unless the lease ends before.
func (c *committer) ack(items []*flow.Item[Message]) error {
	if len(items) == 0 {
		return nil
	}
	messages := make([]Message, len(items))
	for i, item := range items {
		messages[i] = item.Message
	}
	ctx, cancel := c.whileOwned()
	defer cancel()
	err := context.Cause(ctx)
	if err == nil {
		if err = c.sub.Ack(ctx, messages); err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("acknowledge %s: %w", messages[len(messages)-1].ID, err)
	}
	return nil
}

// attempts are the failing messages whose attempts are to be kept. One that halted the flow is tried as often once the
// task is run again.
func attempts(failing []*flow.Item[Message], halted *flow.Item[Message]) (messages []Message) {
	items := slices.Clone(failing)
	slices.SortStableFunc(items, func(a, b *flow.Item[Message]) int { return b.Attempts() - a.Attempts() })
	of := map[string]int{}
	for _, item := range items {
		m := item.Message
		if of[m.Partition]++; of[m.Partition] > mostKept {
			continue
		}
		if m.Delivered = item.Attempts(); item == halted {
			m.Delivered = 0
		}
		messages = append(messages, m)
	}
	return messages
}

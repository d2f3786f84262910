package redis

import (
	"context"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// Open connects and begins where the subscription was left. It creates no stream.
func (s Source) Open(ctx context.Context, session subscribe.Session) (subscribe.Subscription, error) {
	set, err := s.settings(session)
	if err != nil {
		return nil, err
	}
	o, err := set.options()
	if err != nil {
		return nil, err
	}
	l := newLink(o, set.stream)
	sub, err := s.begin(ctx, l, set, session)
	switch {
	case err == nil:
		return sub, nil
	case ctx.Err() != nil:
		err = l.explain(ctx.Err())
	}
	_ = l.close(func() {}) // what is wrong is known
	return nil, err
}

func (s Source) begin(
	ctx context.Context, l *link, set settings, session subscribe.Session,
) (subscribe.Subscription, error) {
	c := common{
		link: l, field: set.field, block: s.block(), start: set.start, missing: s.Missing, log: session.Log,
	}
	if s.inStore() {
		return openStored(ctx, c, session.Checkpoint)
	}
	owner := owner{
		hash: ownerKey(set.stream, set.group), task: string(session.Key()), token: session.Token, group: set.group,
	}
	return openGrouped(ctx, c, owner, session.InFlight)
}

package redis

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// owner is the run that a consumer group belongs to. A hash beside the stream holds the largest token that was seen
// and the task that it is of.
type owner struct {
	hash  string // key of the hash
	task  string // GROUP/NAME, which is the consumer's name too
	token int64
	group string // of consumers
}

// ownerKey is the key of the hash of a group. A Redis Cluster keeps it in the stream's slot.
func ownerKey(stream, group string) string {
	if strings.ContainsAny(stream, "{}") {
		return stream + ":shardctl:" + group // the braces name the slot
	}
	return "{" + stream + "}:shardctl:" + group
}

// own makes o the owner, unless a newer one is. Before says that the group had an owner already.
func (o owner) own(ctx context.Context, l *link) (before bool, err error) {
	return ask(ctx, l, func(ctx context.Context) (bool, error) {
		return ownScript.Run(ctx, l.client, []string{o.hash, l.stream}, o.task, text(o.token)).Bool()
	})
}

// do sends a command that changes key. It fails when o is no longer the owner.
func (o owner) do(ctx context.Context, l *link, key string, command ...any) (reply any, err error) {
	args := append([]any{o.task, text(o.token)}, command...)
	return ask(ctx, l, func(ctx context.Context) (any, error) {
		reply, err := fencedScript.Run(ctx, l.client, []string{o.hash, key}, args...).Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		return reply, err
	})
}

// take gives entries that the group has not given yet.
func (o owner) take(ctx context.Context, l *link, from position, count int) ([]entry, error) {
	reply, err := ask(ctx, l, func(ctx context.Context) (any, error) {
		return takeScript.Run(ctx, l.client, []string{o.hash, l.stream},
			o.task, text(o.token), o.group, o.task, from.last.String(), text(from.read), count).Result()
	})
	if err != nil {
		return nil, err
	}
	return entriesIn(reply)
}

// given gives entries that are pending, in order, after an ID.
func (o owner) given(ctx context.Context, l *link, after id, count int) ([]entry, error) {
	reply, err := o.do(ctx, l, l.stream,
		"XREADGROUP", "GROUP", o.group, o.task, "COUNT", count, "STREAMS", l.stream, after.String())
	if err != nil {
		return nil, err
	}
	streams, _ := reply.([]any)
	if len(streams) == 0 {
		return nil, nil
	}
	pair, _ := streams[0].([]any)
	if len(pair) != 2 {
		return nil, nil
	}
	return entriesIn(pair[1])
}

//go:build linux

package peers

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect"
	// The stores that are measured.
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	_ "github.com/shardctl/shardctl/pkg/store/etcd"
	_ "github.com/shardctl/shardctl/pkg/store/postgres"
	_ "github.com/shardctl/shardctl/pkg/store/redis"
)

// mutexLocks are mutexes of one session. Some stores keep one lease duration for all, so each has a cluster of its own.
type mutexLocks struct{ locks *mutex.Locks }

func openMutex(ctx context.Context, t target) (locks, error) {
	db, err := store.Open(ctx, store.Config{URI: t.uri, Cluster: "peers-" + t.lease.String()})
	if err != nil {
		return nil, err
	}
	l, err := mutex.OnStore(db, func(c *elect.Config) {
		c.LeaseDuration, c.Member.Instance = t.lease, t.name
	})
	if err != nil {
		return nil, err
	}
	warm, err := l.Mutex("warm/" + t.name).Lock(ctx) // the session starts with the first use
	if err != nil {
		return nil, err
	}
	return &mutexLocks{l}, warm.Unlock(ctx)
}

func (l *mutexLocks) acquire(ctx context.Context, key string) (held, error) {
	h, err := l.locks.Mutex(key).Lock(ctx)
	if err != nil {
		return held{}, err
	}
	return held{release: h.Unlock, lost: func() bool { return h.Context().Err() != nil }}, nil
}

//go:build linux

package peers

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/mongo"
)

// electLocks are locks of package elect, on MongoDB.
type electLocks struct{ elector *elect.Elector }

func openElect(ctx context.Context, t target) (locks, error) {
	store, err := mongo.Open(ctx, mongo.Options{URI: t.uri, OperationTimeout: t.lease / 6})
	if err != nil {
		return nil, err
	}
	elector, err := elect.Start(ctx, elect.Config{
		Store: store, LeaseDuration: t.lease,
		Member: elect.Member{Instance: t.name},
	})
	return &electLocks{elector}, err
}

//nolint:contextcheck // the run has a context of its own
func (l *electLocks) acquire(ctx context.Context, key string) (held, error) {
	began := make(chan context.Context, 1)
	ok, err := l.elector.LockWith(ctx, elect.Key("peers/"+key), elect.LockOptions{WaitForever: true},
		func(ctx context.Context, _ *elect.Lease) error {
			began <- ctx
			<-ctx.Done()
			return nil
		})
	if err != nil || !ok {
		return held{}, err
	}
	run := <-began
	return held{
		release: func(ctx context.Context) error { return l.elector.Unlock(ctx, elect.Key("peers/"+key)) },
		lost:    func() bool { return run.Err() != nil },
	}, nil
}

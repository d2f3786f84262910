//go:build linux

package peers

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// etcdLocks are mutexes of one session: one lease of etcd, kept alive by the client every third of it.
type etcdLocks struct{ session *concurrency.Session }

func openEtcd(ctx context.Context, t target) (locks, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://" + t.uri}, DialTimeout: openLimit, Context: ctx,
	})
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(t.lease/time.Second)))
	return &etcdLocks{session}, err
}

func (l *etcdLocks) acquire(ctx context.Context, key string) (held, error) {
	mutex := concurrency.NewMutex(l.session, "/locks/"+key)
	return held{release: mutex.Unlock, lost: ended(l.session.Done())}, mutex.Lock(ctx)
}

//go:build linux

package peers

import (
	"context"
	"database/sql"
	"io"
	"time"

	"cirello.io/pglock"
	_ "github.com/lib/pq" // the driver that pglock asks for
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
	_ "github.com/shardctl/shardctl/pkg/store/etcd" // it is measured
	"github.com/shardctl/shardctl/pkg/store/mongo"
	_ "github.com/shardctl/shardctl/pkg/store/postgres" // it is measured
	_ "github.com/shardctl/shardctl/pkg/store/redis"    // it is measured
)

// electLocks are locks of package elect, on MongoDB.
type electLocks struct{ elector *elect.Elector }

func openElect(ctx context.Context, t target) (locks, error) {
	store, err := mongo.Open(ctx, mongo.Options{URI: t.uri, Timeout: t.lease / 6})
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

// kubeLocks are leader elections, one for each key. Deadlines are in the proportions of client-go's defaults: 15 s,
// 10 s and 2 s.
type kubeLocks struct {
	clients *kubernetes.Clientset
	target  target
}

func openKube(_ context.Context, t target) (locks, error) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	clients, err := kubernetes.NewForConfig(&rest.Config{
		Host: "https://" + t.uri, BearerToken: t.token, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS: -1, // the default of five requests a second is for one lease, not for two hundred
	})
	return &kubeLocks{clients, t}, err
}

func (l *kubeLocks) acquire(ctx context.Context, key string) (held, error) {
	leading, stopped := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: key}, Client: l.clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.target.name},
		},
		LeaseDuration: l.target.lease, RenewDeadline: l.target.lease * 2 / 3, RetryPeriod: l.target.lease * 2 / 15,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leading) },
			OnStoppedLeading: func() { close(stopped) },
		},
	})
	if err != nil {
		return held{}, err
	}
	electing, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		elector.Run(electing)
	}()
	release := func(ctx context.Context) error {
		stop()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case <-leading:
		return held{release: release, lost: ended(stopped)}, nil
	case <-time.After(answerLimit):
	case <-ctx.Done():
	}
	stop()
	return held{}, context.DeadlineExceeded
}

// pgLocks are locks of pglock, which renews them itself. Its defaults are 20 s and a heartbeat every quarter of that.
type pgLocks struct{ client *pglock.Client }

func openPglock(_ context.Context, t target) (locks, error) {
	db, err := sql.Open("postgres", t.uri)
	if err != nil {
		return nil, err
	}
	client, err := pglock.New(db, pglock.WithLeaseDuration(t.lease), pglock.WithHeartbeatFrequency(t.lease/4),
		pglock.WithOwner(t.name))
	if err != nil {
		return nil, err
	}
	return &pgLocks{client}, createPglock(client)
}

// createPglock makes the table. Of several holders that begin at once one may find it half made.
func createPglock(client *pglock.Client) (err error) {
	for range 5 {
		if err = client.TryCreateTable(); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// acquire uses Do: it ends the context of a holder that has lost the lock.
//
//nolint:contextcheck // the context of Do is its own
func (l *pgLocks) acquire(ctx context.Context, key string) (held, error) {
	began, release, done := make(chan context.Context, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- l.client.Do(ctx, key, func(ctx context.Context, _ *pglock.Lock) error {
			began <- ctx
			<-release
			return nil
		})
	}()
	select {
	case run := <-began:
		return held{
			lost: func() bool { return run.Err() != nil },
			release: func(context.Context) error {
				close(release)
				return <-done
			},
		}, nil
	case err := <-done:
		return held{}, err
	}
}

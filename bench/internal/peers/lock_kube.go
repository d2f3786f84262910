//go:build linux

package peers

import (
	"context"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

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

package main

import (
	"context"

	"github.com/shardctl/shardctl/pkg/shard"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// kind is that of the objects that are reconciled.
var kind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// bySlot is the index of the cache.
const bySlot = "slot"

// reconciler reconciles one object whose slot this replica owns. It returns soon after ctx ends: only then may another
// replica own the slot.
type reconciler func(ctx context.Context, c client.Client, own shard.Lease, req ctrl.Request) (ctrl.Result, error)

// run takes part until ctx ends. Manager, controller and slots end together: the workers of the controller return, and
// then the slots are handed over.
func run(ctx context.Context, cfg *rest.Config, o options, reconcile reconciler) error {
	mgr, err := newManager(cfg, o)
	if err != nil {
		return err
	}
	s := &slots{number: o.slots, cache: mgr.GetCache(), owned: map[string]*held{}, started: make(chan struct{})}
	if err := s.watch(ctx, mgr, o.workers, reconcile); err != nil {
		return err
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		return shard.Run(ctx, shard.Config{
			Store: o.store, Group: "objects", Slots: o.slots, Instance: o.instance, Lease: o.lease, Settle: o.settle,
			Logger: mgr.GetLogger(),
		}, s.hold)
	}))
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newManager makes a manager whose cache holds the names of all objects and nothing else of them. Which objects this
// replica owns changes, and no selector of the API server selects by a hash of the name. So an object is read from the
// API server when it is reconciled.
func newManager(cfg *rest.Config, o options) (ctrl.Manager, error) {
	options := ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: o.metrics},
		Cache:   cache.Options{DefaultTransform: namesOnly},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.ConfigMap{}}}},
	}
	if o.namespace != "" {
		options.Cache.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	return ctrl.NewManager(cfg, options)
}

// namesOnly is what the cache keeps of an object.
func namesOnly(object any) (any, error) {
	if m, ok := object.(*metav1.PartialObjectMetadata); ok {
		m.ObjectMeta = metav1.ObjectMeta{
			Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		}
	}
	return object, nil
}

// watch has the objects of owned slots reconciled. The API server sends metadata alone, without the data.
func (s *slots) watch(ctx context.Context, mgr ctrl.Manager, workers int, work reconciler) error {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	err := mgr.GetFieldIndexer().IndexField(ctx, object, bySlot, func(o client.Object) []string {
		return []string{s.name(client.ObjectKeyFromObject(o))}
	})
	if err != nil {
		return err
	}
	queue := func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		s.queue = queue
		close(s.started)
		return nil
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(object, builder.WithPredicates(predicate.NewPredicateFuncs(s.owns))).
		WatchesRawSource(source.Func(queue)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
			h := s.begin(req.NamespacedName)
			if h == nil {
				return ctrl.Result{}, nil // another replica's, which has enqueued the object itself
			}
			defer h.work.Done()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(h.ctx, cancel)() //nolint:contextcheck // the slot ends it as well
			result, err := work(ctx, mgr.GetClient(), h.own, req)
			if h.ctx.Err() != nil {
				return ctrl.Result{}, nil // the next owner reconciles it
			}
			return result, err
		}))
}

package main

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/shardctl/shardctl/pkg/shard"
)

// resource is that of the objects that are reconciled.
var resource = corev1.SchemeGroupVersion.WithResource("configmaps")

// reconciler reconciles one object whose slot this replica owns. It returns soon after ctx ends: only then may another
// replica own the slot.
type reconciler func(ctx context.Context, c client.Client, own shard.Lease, req ctrl.Request) (ctrl.Result, error)

// run takes part until ctx ends. Manager, controller and slots end together: the workers of the controller return, and
// then the slots are handed over.
func run(ctx context.Context, cfg *rest.Config, o options, reconcile reconciler) error {
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: o.metrics},
		// An object is read from the API server when it is reconciled.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.ConfigMap{}}}},
	})
	if err != nil {
		return err
	}
	api, err := metadata.NewForConfigAndClient(cfg, mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	s := newSlots(o.slots, api.Resource(resource).Namespace(o.namespace))
	if err := s.control(mgr, o.workers, reconcile); err != nil {
		return err
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		return shard.Run(ctx, shard.Config{
			Store: o.store, Group: "objects", Slots: o.slots, Instance: o.instance, Lease: o.lease, Settle: o.settle,
			Logger: slog.New(logr.ToSlogHandler(mgr.GetLogger())),
		}, s.hold)
	}))
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// control has a controller reconcile the objects of owned slots.
func (s *slots) control(mgr ctrl.Manager, workers int, work reconciler) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(resource.Resource).
		WatchesRawSource(source.Func(s.watch)).
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

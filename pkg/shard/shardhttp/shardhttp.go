// Package shardhttp serves the status page, the HTTP API and the Prometheus metrics of a [shard.Replica].
//
//	replica, err := shard.Start(ctx, shard.Config{
//		…, Options: shard.Options{Metrics: shardhttp.NewMetrics()},
//	}, work)
//	…
//	mux.Handle("/shards/", http.StripPrefix("/shards", shardhttp.Handler(replica, shardhttp.Options{})))
//
// A program that does not import it compiles neither the page nor the Prometheus client.
package shardhttp

import (
	"net/http"

	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/route"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/shard"
)

// Options configures [Handler]. The zero value is ready to use.
type Options struct {
	// Route forwards requests under /route/GROUP/NAME/ to the [shard.Config.Address] of the key's owner.
	Route bool
}

// NewMetrics returns metrics for [shard.Options.Metrics], which [Handler] serves under /metrics. Use it for one
// replica.
func NewMetrics() shard.Metrics { return metrics.New(false) }

// Handler returns a read-only handler for the page, the API under /api/, /metrics, /livez and /readyz. /metrics shows
// the cluster as this process sees it. It shows what this process itself does only if [shard.Options.Metrics] came from
// [NewMetrics].
//
// The handler does no authentication; mount it behind yours.
func Handler(r *shard.Replica, o Options) http.Handler {
	inside := r.Inside()
	made := inside.Config()
	counted, _ := made.Metrics.(*metrics.Metrics)
	forwarding := route.Config{Source: inside.Board()}
	if counted != nil {
		counted.SetBuild(made.Version, "")
		forwarding.Done = counted.Routed
	}
	handler := status.New(status.Showing(inside, counted, made.Logger))
	if o.Route {
		handler = route.Over(handler, route.New(forwarding))
	}
	return handler
}

package config

import (
	"reflect"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// Changed lists the fields, as lease.duration, outside the task lists in which two configurations differ. A running
// replica takes them up only when it is restarted. Of the task lists are groups, with all that is in them, and
// revision.
func Changed(before, after *Settings) []string {
	var names []string
	old, now := before.fixed(), after.fixed()
	for i := range old {
		if !reflect.DeepEqual(old[i].Value, now[i].Value) {
			names = append(names, old[i].Name)
		}
	}
	return names
}

// fixed are the fields that do not change while a replica runs.
func (s *Settings) fixed() decode.Fields {
	return decode.Fields{
		{Name: "cluster", Value: s.Cluster},
		{Name: "instance", Value: s.Instance},
		{Name: "zone", Value: s.Zone},
		{Name: "labels", Value: decode.Map(s.Labels)},
		{Name: "maxTasks", Value: s.MaxTasks},
		{Name: "rollout", Value: s.Rollout},
		{Name: "pod.uid", Value: s.Pod.UID},
		{Name: "pod.container", Value: s.Pod.Container},
		{Name: "pod.dir", Value: s.Pod.Dir},
		{Name: "store.uri", Value: s.Store.URI},
		{Name: "store.database", Value: s.Store.Database},
		{Name: "lease.duration", Value: s.Lease.Duration},
		{Name: "lease.renewDeadline", Value: s.Lease.RenewDeadline},
		{Name: "rebalance.settle", Value: s.Rebalance.Settle},
		{Name: "rebalance.maxMoves", Value: s.Rebalance.MaxMoves},
		{Name: "rebalance.onRestart", Value: s.Rebalance.OnRestart},
		{Name: "rebalance.restartGrace", Value: s.Rebalance.RestartGrace},
		{Name: "shutdown.timeout", Value: s.Shutdown.Timeout},
		{Name: "server.listen", Value: s.Server.Listen},
		{Name: "server.advertise", Value: s.Server.Advertise},
		{Name: "server.hosts", Value: s.Server.Hosts},
		{Name: "server.logs", Value: s.Server.Logs},
		{Name: "server.tls", Value: s.Server.TLS},
		{Name: "admin.listen", Value: s.Admin.Listen},
		{Name: "admin.tokensFile", Value: s.Admin.TokensFile},
		{Name: "admin.tls", Value: s.Admin.TLS},
		{Name: "metrics.perTask", Value: s.Metrics.PerTask},
		{Name: "log.level", Value: s.Log.Level},
		{Name: "log.format", Value: s.Log.Format},
	}
}

// WithLists is s with the task lists of another configuration: what a running replica goes on with after a reload.
func (s *Settings) WithLists(from *Settings) *Settings {
	merged := *s
	merged.Groups, merged.Revision, merged.Files, merged.seen = from.Groups, from.Revision, from.Files, from.seen
	merged.Warnings = from.Warnings
	return &merged
}

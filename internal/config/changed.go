package config

import "reflect"

// Changed lists the fields, as lease.duration, outside the task lists in which two configurations differ: what a running
// replica takes up only when it is restarted. Of the task lists are groups, with all that is in them, and revision.
func Changed(before, after *Settings) []string {
	var names []string
	old, now := before.fixed(), after.fixed()
	for i := range old {
		if !reflect.DeepEqual(old[i].value, now[i].value) {
			names = append(names, old[i].name)
		}
	}
	return names
}

// fixed are the fields that do not change while a replica runs.
func (s *Settings) fixed() fields {
	return fields{
		{"cluster", s.Cluster},
		{"instance", s.Instance},
		{"zone", s.Zone},
		{"labels", some(s.Labels)},
		{"maxTasks", s.MaxTasks},
		{"rollout", s.Rollout},
		{"pod.uid", s.Pod.UID},
		{"pod.container", s.Pod.Container},
		{"pod.dir", s.Pod.Dir},
		{"store.uri", s.Store.URI},
		{"store.database", s.Store.Database},
		{"lease.duration", s.Lease.Duration},
		{"lease.renewDeadline", s.Lease.RenewDeadline},
		{"rebalance.settle", s.Rebalance.Settle},
		{"rebalance.maxMoves", s.Rebalance.MaxMoves},
		{"rebalance.onRestart", s.Rebalance.OnRestart},
		{"rebalance.restartGrace", s.Rebalance.RestartGrace},
		{"shutdown.timeout", s.Shutdown.Timeout},
		{"server.listen", s.Server.Listen},
		{"server.advertise", s.Server.Advertise},
		{"server.tls", s.Server.TLS},
		{"admin.listen", s.Admin.Listen},
		{"admin.tokensFile", s.Admin.TokensFile},
		{"admin.tls", s.Admin.TLS},
		{"metrics.perTask", s.Metrics.PerTask},
		{"log.level", s.Log.Level},
		{"log.format", s.Log.Format},
	}
}

// WithLists is s with the task lists of another configuration: what a running replica goes on with after a reload.
func (s *Settings) WithLists(from *Settings) *Settings {
	merged := *s
	merged.Groups, merged.Revision, merged.Files, merged.seen = from.Groups, from.Revision, from.Files, from.seen
	return &merged
}

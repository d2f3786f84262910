package config

import (
	"crypto/sha256"
	"reflect"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/settings"
)

// Config is a configuration as it was read: its settings, and what is known of the files that they stand in. It is
// never changed once [Load] has returned it.
type Config struct {
	*settings.Settings
	// Files are the files that were read, in order; of a directory, those in it.
	Files []string
	// Warnings are what is allowed, and probably not meant, with its places.
	Warnings decode.Errors

	seen   [sha256.Size]byte // what the files held
	source source
}

// withLists is c with the task lists of another configuration: what a running replica goes on with after a reload.
func (c *Config) withLists(from *Config) *Config {
	merged, s := *c, *c.Settings
	s.Groups, s.Revision = from.Groups, from.Revision
	merged.Settings, merged.Files, merged.Warnings, merged.seen = &s, from.Files, from.Warnings, from.seen
	merged.source.groups = from.source.groups
	return &merged
}

// changed lists the fields, as lease.duration, outside the task lists in which two configurations differ. A running
// replica takes them up only when it is restarted. Of the task lists are groups, with all that is in them, and
// revision.
func changed(before, after *settings.Settings) []string {
	var names []string
	old, now := fixed(before), fixed(after)
	for i := range old {
		if !reflect.DeepEqual(old[i].Value, now[i].Value) {
			names = append(names, old[i].Name)
		}
	}
	return names
}

// fixed are the fields that do not change while a replica runs.
func fixed(s *settings.Settings) decode.Fields {
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
		{Name: "store.uri", Value: s.Store.Lasting()},
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
		{Name: "server.route", Value: s.Server.Route},
		{Name: "server.tls", Value: s.Server.TLS},
		{Name: "app.listen", Value: s.App.Listen},
		{Name: "app.tokenFile", Value: s.App.TokenFile},
		{Name: "app.command", Value: s.App.Command},
		{Name: "app.address", Value: s.App.Address},
		{Name: "admin.listen", Value: s.Admin.Listen},
		{Name: "admin.tokensFile", Value: s.Admin.TokensFile},
		{Name: "admin.tls", Value: s.Admin.TLS},
		{Name: "metrics.perTask", Value: s.Metrics.PerTask},
		{Name: "log.level", Value: s.Log.Level},
		{Name: "log.format", Value: s.Log.Format},
	}
}

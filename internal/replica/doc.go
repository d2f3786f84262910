// Package replica is one replica of `shardctl run`: an elector, the reconciliation loop and the supervisor of tasks,
// put together from a configuration, and what they know shown as snapshots. The command adds flags, signals, logs and
// listeners.
package replica

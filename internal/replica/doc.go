// Package replica is one replica of `shardctl run`. An elector, the reconciliation loop and the supervisor of tasks are
// put together from a configuration, and what they know is shown as snapshots. The command adds flags, signals, logs
// and listeners.
package replica

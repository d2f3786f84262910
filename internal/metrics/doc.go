// Package metrics counts what this replica does, and shows the newest snapshot of its cluster, as Prometheus metrics.
package metrics

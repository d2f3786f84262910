// Package stores measures the same on every store: what a durable write and a notification take, hand-over, failover,
// the cost of idle replicas, and a cold start.
package stores

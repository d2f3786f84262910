// Package alerts holds the chart's alerts and its dashboard against what a replica really shows. Every metric and label
// that they name is one of a registry that package status fills. Every alert is tested by promtool to fire and to stay
// silent, and each has its section in docs/operations/alerts.md.
//
// It is a module of its own, so that the parser of Prometheus is no dependency of the program. Run it from this
// directory:
//
//	go test ./...
package alerts

// Package tracing makes OpenTelemetry spans of what a replica does with keys, and exports them by OTLP. It is the only
// package that knows OpenTelemetry: what makes the spans are the hooks of packages elect and tasks.
//
//	old owner   hand-over ─────┐ the same trace: both sides derive its ID
//	new owner                  claim ── start
//	                             ╰ link ── run       a trace of its own, passed on to the work
//
// Nothing of a trace is in the store. A release and the claim that follows it know the key, and the fencing token under
// which it was held. The trace's ID is a hash of these, so two replicas put their spans into one trace without a word.
// A sampler that goes by the trace's ID decides alike on both.
package tracing

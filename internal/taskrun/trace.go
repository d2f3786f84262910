package taskrun

import (
	"strings"

	"github.com/shardctl/shardctl/internal/variables"
)

// TraceContext names a span as in W3C Trace Context. It is empty without tracing.
type TraceContext struct {
	Parent string // traceparent
	State  string // tracestate
}

// ID is the trace's ID in hexadecimal; empty without tracing.
func (c TraceContext) ID() string {
	_, rest, _ := strings.Cut(c.Parent, "-")
	id, _, _ := strings.Cut(rest, "-")
	return id
}

// variables adds those that a command finds its trace by.
func (c TraceContext) variables(own variables.Set) {
	if c.Parent != "" {
		own["TRACEPARENT"] = c.Parent
	}
	if c.State != "" {
		own["TRACESTATE"] = c.State
	}
}

// DeliverySpan is one delivery in a trace. Its methods must not block.
type DeliverySpan interface {
	// Trace is what the receiver gets.
	Trace() TraceContext
	// End says how the delivery has ended; nil: all messages were worked on. It is called once.
	End(err error)
}

type noDelivery struct{ trace TraceContext }

func (d noDelivery) Trace() TraceContext { return d.trace }
func (noDelivery) End(error)             {}

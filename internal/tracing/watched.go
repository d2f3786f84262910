package tracing

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// watched is an exporter that says once when spans cannot be exported, and once when they can be again.
type watched struct {
	sdk.SpanExporter
	log logr.Logger

	mu   sync.Mutex
	lost int // spans since the last export that succeeded
}

// ExportSpans exports spans.
func (w *watched) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := w.SpanExporter.ExportSpans(ctx, spans)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil && w.lost == 0:
		w.log.Error(err, "Spans cannot be exported: they are dropped until the collector takes them")
	case err == nil && w.lost > 0:
		w.log.Info("Spans are exported again", "spans", w.lost)
	}
	if w.lost += len(spans); err == nil {
		w.lost = 0
	}
	return err
}

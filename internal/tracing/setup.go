package tracing

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Config is what the spans of a replica say of it.
type Config struct {
	Cluster, Instance, Version string
	Log                        logr.Logger
}

// Tracing exports the spans of its Tracer.
type Tracing struct {
	*Tracer
	provider *sdk.TracerProvider
}

// Start sets tracing up as the environment says, by the variables of OpenTelemetry; nil: it asks for none. It does not
// wait for the collector. An error names the variable, its value and what is allowed; nothing is traced then.
func Start(ctx context.Context, cfg Config) (*Tracing, error) {
	asked, err := asked()
	if err != nil || !asked {
		return nil, err
	}
	otel.SetLogger(cfg.Log)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		cfg.Log.V(1).Info("OpenTelemetry has trouble", "error", err.Error())
	}))
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, err
	}
	of, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			semconv.ServiceName("shardctl"), semconv.ServiceVersion(cfg.Version),
			semconv.ServiceInstanceID(cfg.Instance), AttrCluster.String(cfg.Cluster),
		),
		resource.WithFromEnv(), // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win
	)
	if err != nil {
		cfg.Log.Error(err, "The resource of traces is not complete")
	}
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(&watched{SpanExporter: exporter, log: cfg.Log}), sdk.WithResource(of),
		sdk.WithIDGenerator(ids{}),
	)
	cfg.Log.Info("Tracing is on")
	return &Tracing{Tracer: newTracer(provider, cfg), provider: provider}, nil
}

// Close exports what has ended, for as long as ctx allows. Nothing is traced afterwards.
func (t *Tracing) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// The variables that say whether and how to export. What else the exporters and the SDK know, they read themselves.
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

// asked says whether the environment asks for traces: by an exporter, or by an endpoint for one.
func asked() (bool, error) {
	if strings.EqualFold(env(envDisabled), "true") {
		return false, nil
	}
	exporter := env(envExporter)
	if exporter == "" {
		return env(envEndpoint) != "" || env(envTracesEndpoint) != "", nil
	}
	names := strings.FieldsFunc(exporter, func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case slices.Contains(names, "otlp"):
		return true, nil
	case slices.Contains(names, "none"):
		return false, nil
	default:
		return false, fmt.Errorf("%s=%s: must be otlp or none", envExporter, exporter)
	}
}

func newExporter(ctx context.Context) (sdk.SpanExporter, error) {
	name := envTracesProtocol
	if env(name) == "" {
		name = envProtocol
	}
	var exporter sdk.SpanExporter
	var err error
	switch protocol := cmp.Or(env(name), "http/protobuf"); protocol {
	case "http/protobuf":
		exporter, err = otlptracehttp.New(ctx)
	case "grpc":
		exporter, err = otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("%s=%s: must be http/protobuf or grpc", name, protocol)
	}
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	return exporter, nil
}

// env is a variable; an empty one counts as unset, as OpenTelemetry has it.
func env(name string) string { return strings.TrimSpace(os.Getenv(name)) }

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

package tracing

import (
	"context"
	"net"
	"testing"

	"github.com/go-logr/logr"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/shardctl/shardctl/pkg/elect/record"
)

// grpcCollector takes spans by OTLP over gRPC.
type grpcCollector struct {
	collector.UnimplementedTraceServiceServer

	requests chan *collector.ExportTraceServiceRequest
}

func (c grpcCollector) Export(
	_ context.Context, request *collector.ExportTraceServiceRequest,
) (*collector.ExportTraceServiceResponse, error) {
	c.requests <- request
	return &collector.ExportTraceServiceResponse{}, nil
}

// The environment chooses gRPC, and the scheme of the endpoint that it is without TLS.
func TestExportByGRPC(t *testing.T) {
	unset(t)
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := grpcCollector{requests: make(chan *collector.ExportTraceServiceRequest, 10)}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Setenv(envTracesEndpoint, "http://"+listener.Addr().String())
	t.Setenv(envTracesProtocol, "grpc")
	traces, err := Start(t.Context(), Config{Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	a := &replica{Tracer: traces.Tracer, t: t, name: "a"}
	a.claim(record.Lock{Key: key}, 7)
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if span := (<-c.requests).GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0]; span.GetName() != SpanClaim {
		t.Errorf("exported is %s", span.GetName())
	}
}

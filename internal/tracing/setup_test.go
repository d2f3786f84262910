package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/test/suites"
)

// unset has no variable ask for traces, until the test ends.
func unset(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		envDisabled, envExporter, envEndpoint, envTracesEndpoint, envProtocol, envTracesProtocol, "OTEL_SERVICE_NAME",
		"OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER",
	} {
		t.Setenv(name, "")
	}
}

func TestWhatAsksForTraces(t *testing.T) {
	for _, test := range []struct {
		env   string
		asked bool
		wrong string
	}{
		{env: ""},
		{env: "OTEL_SERVICE_NAME=x"},
		{env: "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", asked: true},
		{env: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318/v1/traces", asked: true},
		{env: "OTEL_TRACES_EXPORTER=otlp", asked: true},
		{env: "OTEL_TRACES_EXPORTER=console,otlp", asked: true},
		{env: "OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318"},
		{env: "OTEL_SDK_DISABLED=TRUE OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318"},
		{env: "OTEL_SDK_DISABLED=false OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", asked: true},
		{env: "OTEL_TRACES_EXPORTER=zipkin", wrong: "OTEL_TRACES_EXPORTER=zipkin: must be otlp or none"},
		{
			env:   "OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
			wrong: "OTEL_EXPORTER_OTLP_PROTOCOL=http/json: must be http/protobuf or grpc",
		},
		{
			env:   "OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=x",
			wrong: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=x: must be http/protobuf or grpc",
		},
		{env: "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317 OTEL_EXPORTER_OTLP_PROTOCOL=grpc", asked: true},
	} {
		t.Run(test.env, func(t *testing.T) {
			unset(t)
			for set := range strings.FieldsSeq(test.env) {
				name, value, _ := strings.Cut(set, "=")
				t.Setenv(name, value)
			}
			traces, err := Start(t.Context(), Config{Log: logr.Discard()})
			if got := errorText(err); got != test.wrong || (traces != nil) != test.asked {
				t.Errorf("tracing %v, error %q; want %v, %q", traces != nil, got, test.asked, test.wrong)
			}
			if traces != nil {
				_ = traces.Close(t.Context())
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What is exported reaches a collector, and says which replica it is of. The environment has the last word.
func TestExport(t *testing.T) {
	unset(t)
	requests := make(chan *collector.ExportTraceServiceRequest, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
			var unzipped *gzip.Reader
			if unzipped, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
				body, err = io.ReadAll(unzipped)
			}
		}
		request := &collector.ExportTraceServiceRequest{}
		if err = errors.Join(err, proto.Unmarshal(body, request)); err != nil {
			t.Error(err)
		}
		requests <- request
		w.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(server.Close)
	t.Setenv(envEndpoint, server.URL)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=mine,team=core")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	traces, err := Start(t.Context(), Config{Cluster: "c", Instance: "a", Version: "v1", Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	a := &replica{Tracer: traces.Tracer, t: t, name: "a"}
	a.claim(record.Lock{Key: key}, 7)
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := (<-requests).GetResourceSpans()[0]
	of := map[string]string{}
	for _, kv := range got.GetResource().GetAttributes() {
		of[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	for name, want := range map[string]string{
		"service.name": "mine", "team": "core", "service.version": "v1", "service.instance.id": "a",
		"shardctl.cluster": "c",
	} {
		if of[name] != want {
			t.Errorf("%s is %q, want %q", name, of[name], want)
		}
	}
	if span := got.GetScopeSpans()[0].GetSpans()[0]; span.GetName() != SpanClaim {
		t.Errorf("exported is %s", span.GetName())
	}
}

// A collector that takes connections and never answers holds up neither what makes spans nor the end.
func TestCollectorThatDoesNotAnswer(t *testing.T) {
	suites.Need(t, suites.Processes, "limits by the wall clock")
	unset(t)
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	t.Setenv(envEndpoint, "http://"+listener.Addr().String())
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	traces, err := Start(t.Context(), Config{Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	a := &replica{Tracer: traces.Tracer, t: t, name: "a"}
	began := time.Now()
	for token := range int64(10_000) { // more than are queued
		a.claim(record.Lock{Key: key}, token+1)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("10,000 claims took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began = time.Now()
	if err := traces.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close returned %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Close took %v, with a limit of 100ms", took)
	}
	_ = listener.Close() // the export under way ends, and so does its goroutine
}

// A collector that is away is worth one line in the log, and one when it is back.
func TestTroubleIsLoggedOnce(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	log := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, args)
	}, funcr.Options{})
	away := errors.New("connection refused")
	fake := &fakeExporter{err: away}
	w := &watched{SpanExporter: fake, log: log}
	spans := tracetest.SpanStubs{{Name: "one"}, {Name: "two"}}.Snapshots()
	for range 3 {
		if err := w.ExportSpans(t.Context(), spans); !errors.Is(err, away) {
			t.Fatal(err)
		}
	}
	fake.err = nil
	for range 3 {
		if err := w.ExportSpans(t.Context(), spans); err != nil {
			t.Fatal(err)
		}
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "connection refused") ||
		!strings.Contains(lines[1], `"spans"=6`) {
		t.Errorf("logged was %q", lines)
	}
}

type fakeExporter struct {
	sdk.SpanExporter
	err error
}

func (f *fakeExporter) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return f.err }

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

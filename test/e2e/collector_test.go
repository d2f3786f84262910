//go:build linux

package e2e_test

import (
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// span is one that a replica has exported.
type span struct {
	*tracepb.Span

	Instance string // service.instance.id
	Values   map[string]string
}

// ID and the others are hexadecimal, as in TRACEPARENT.
func (s span) ID() string     { return hex.EncodeToString(s.SpanId) }
func (s span) Trace() string  { return hex.EncodeToString(s.TraceId) }
func (s span) Parent() string { return hex.EncodeToString(s.ParentSpanId) }

// Linked are the spans that it has links to.
func (s span) Linked() []string {
	var ids []string
	for _, l := range s.GetLinks() {
		ids = append(ids, hex.EncodeToString(l.GetSpanId()))
	}
	return ids
}

// took is how long it was, without what people do not read.
func (s span) took() time.Duration {
	return time.Duration(s.GetEndTimeUnixNano() - s.GetStartTimeUnixNano()).Round(100 * time.Microsecond)
}

// traceparent is how the span is passed on.
func (s span) traceparent() string { return "00-" + s.Trace() + "-" + s.ID() + "-01" }

// collector takes spans by OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []span
}

// newCollector is a collector that all replicas export to which are started until the scenario ends.
func newCollector() *collector {
	GinkgoHelper()
	c := &collector{}
	c.Server = httptest.NewServer(c)
	DeferCleanup(c.Close)
	exportTo(c.URL)
	return c
}

// exportTo has replicas export to a collector from now on, soon after each span has ended.
func exportTo(url string) {
	GinkgoT().Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	GinkgoT().Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
}

// silence listens, and never answers.
func silence(ctx SpecContext) string {
	GinkgoHelper()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	return "http://" + listener.Addr().String()
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := &collectorpb.ExportTraceServiceRequest{}
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, request) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.GetResourceSpans() {
		instance := values(of.GetResource().GetAttributes())["service.instance.id"]
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, span{Span: s, Instance: instance, Values: values(s.GetAttributes())})
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(http.StatusOK)
}

// values are texts and numbers by name.
func values(of []*commonpb.KeyValue) map[string]string {
	all := map[string]string{}
	for _, kv := range of {
		switch v := kv.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			all[kv.GetKey()] = v.StringValue
		default:
			all[kv.GetKey()] = kv.GetValue().String()
		}
	}
	return all
}

// of are the spans of a name that an instance has exported for a key.
func (c *collector) of(name, instance, key string) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s span) bool {
		return s.GetName() != name || s.Instance != instance || s.Values["shardctl.key"] != key
	})
}

// eventually waits for such a span, and returns the first.
func (c *collector) eventually(name, instance, key string) span {
	GinkgoHelper()
	Eventually(func() []span { return c.of(name, instance, key) }).ShouldNot(BeEmpty(), name+" of "+instance)
	return c.of(name, instance, key)[0]
}

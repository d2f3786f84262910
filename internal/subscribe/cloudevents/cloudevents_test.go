package cloudevents

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/taskrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is a request as the endpoint got it, with its events as the SDK reads them.
type seen struct {
	header http.Header
	method string
	body   string
	events []event.Event
}

// serve is an endpoint that notes requests and answers what answer says; nil: 204.
func serve(t *testing.T, answer http.HandlerFunc) (address string, requests <-chan seen) {
	t.Helper()
	all := make(chan seen, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all <- read(t, r)
		if answer != nil {
			answer(w, r)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	return server.URL, all
}

func read(t *testing.T, r *http.Request) seen {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	s := seen{header: r.Header, method: r.Method, body: string(body)}
	if strings.HasPrefix(r.Header.Get("Content-Type"), event.ApplicationCloudEventsBatchJSON) {
		if s.events, err = cehttp.NewEventsFromHTTPRequest(r); err != nil {
			t.Error(err)
		}
		return s
	}
	e, err := cehttp.NewEventFromHTTPRequest(r)
	if err != nil {
		t.Error(err)
		return s
	}
	s.events = []event.Event{*e}
	return s
}

func open(t *testing.T, sink Sink, change ...func(*supervisor.Config)) subscribe.Receiver {
	t.Helper()
	env, _ := taskrig.Env(t, change...)
	r, err := sink.Open(t.Context(), env, "kafka:orders eu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

var at = time.Date(2026, 3, 29, 1, 2, 3, 4, time.FixedZone("", 3600))

func delivery(id, body string) subscribe.Delivery {
	return subscribe.Delivery{
		Message: subscribe.Message{ID: id, Partition: "3", Key: []byte("k"), Body: []byte(body), Time: at},
		Attempt: 2, Start: tasks.Start{Token: 7, Attempt: 5},
	}
}

func deliver(t *testing.T, r subscribe.Receiver, deliveries ...subscribe.Delivery) []error {
	t.Helper()
	errs := r.Deliver(t.Context(), deliveries)
	if len(errs) != len(deliveries) {
		t.Fatalf("%d results of %d deliveries", len(errs), len(deliveries))
	}
	return errs
}

func TestOneMessageInBinaryMode(t *testing.T) {
	address, requests := serve(t, nil)
	r := open(t, Sink{Endpoint: endpoint.Endpoint{
		URL:     "$(HOST)/in?group=$(SHARDCTL_GROUP)",
		Headers: map[string]string{"Team": "$(TEAM)"},
	}},
		func(c *supervisor.Config) {
			c.Environ = func() []string { return []string{"HOST=" + address, "TEAM=core"} }
		})
	if r.Batch() != DefaultBatchSize {
		t.Errorf("batches of %d", r.Batch())
	}
	d := delivery("orders/3/42", "\x00\xff\r\n")
	d.Key, d.Again, d.Type, d.Origin = []byte(`größe "1"%`), true, "application/x-binary", "x 1"
	d.Headers = map[string]string{"Trace-Id": "ä\n\"1\"", "raw": "\xff\x00"}
	if err := deliver(t, r, d)[0]; err != nil {
		t.Fatal(err)
	}
	got := taskrig.Wait(t, requests, "the request")
	for name, want := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": "orders/3/42", "Ce-Type": EventType,
		"Ce-Source": "/shardctl/kafka:orders%2520eu#x%25201", "Ce-Time": "2026-03-29T00:02:03.000000004Z",
		"Ce-Subject": "gr%C3%B6%C3%9Fe%20%221%22%25", "Ce-Partitionkey": "gr%C3%B6%C3%9Fe%20%221%22%25",
		"Ce-Partition": "3", "Ce-Attempt": "2", "Ce-Redelivered": "true",
		"Ce-Headers": `{%22Trace-Id%22:%22%C3%A4\n\%221\%22%22}`, "Ce-Headersbase64": "{%22raw%22:%22/wA=%22}",
		"Content-Type": "application/x-binary", "Idempotency-Key": "orders/3/42@x%201", "Shardctl-Event": "message",
		"Shardctl-Task": "n", "Shardctl-Group": "g", "Shardctl-Key": "g/n", "Shardctl-Fencing-Token": "7",
		"Shardctl-Instance": "a", "Shardctl-Valid-For": "", "Traceparent": "", "Team": "core",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.header.Get(name), want)
		}
	}
	if got.method != "POST" || got.body != "\x00\xff\r\n" {
		t.Errorf("%s %q", got.method, got.body)
	}
	if err := got.events[0].Validate(); err != nil {
		t.Errorf("the SDK reads no event: %v", err)
	}
}

// Requests of each mode carry the trace of the delivery, and nothing of the run's.
func TestRequestsCarryTheTraceOfTheDelivery(t *testing.T) {
	address, requests := serve(t, nil)
	env, _ := taskrig.Env(t)
	env.Trace = taskrun.TraceContext{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "v=1"}
	r, err := Sink{Endpoint: endpoint.Endpoint{URL: address}, BatchSize: 2}.Open(t.Context(), env, "kafka:a")
	if err != nil {
		t.Fatal(err)
	}
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	one, event := delivery("a", "1"), delivery("b", "{}")
	event.Type = "application/cloudevents+json"
	one.Trace.Parent, event.Trace.Parent = parent, parent
	for _, deliveries := range [][]subscribe.Delivery{{one}, {event}, {one, event}} {
		deliver(t, r, deliveries...)
		got := taskrig.Wait(t, requests, "the request").header
		if got.Get("Traceparent") != parent || got.Get("Tracestate") != "" {
			t.Errorf("%d messages: traceparent %q, tracestate %q", len(deliveries), got.Get("Traceparent"),
				got.Get("Tracestate"))
		}
	}
}

// A body that is an event itself is the data of ours, and never taken for ours.
func TestAMessageThatIsAnEvent(t *testing.T) {
	address, requests := serve(t, nil)
	r := open(t, Sink{Endpoint: endpoint.Endpoint{URL: address}})
	const body = `{"specversion":"1.0","id":"theirs","source":"/bank","type":"com.bank.paid","data":{"amount":1}}`
	for _, mediaType := range []string{
		"application/cloudevents+json", " Application/CloudEvents+JSON; charset=utf-8", "application/cloudevents+avro",
	} {
		d := delivery("orders/3/42", body)
		d.Type, d.Origin = mediaType, "x1"
		if err := deliver(t, r, d)[0]; err != nil {
			t.Fatal(err)
		}
		got := taskrig.Wait(t, requests, "the request")
		if e := got.events[0]; e.ID() != "orders/3/42" || e.Type() != EventType || string(e.Data()) != body ||
			e.DataContentType() != strings.TrimSpace(mediaType) || e.Subject() != "k" {
			t.Errorf("%s: the SDK reads\n%s", mediaType, e)
		}
		for name := range got.header {
			if strings.HasPrefix(name, "Ce-") {
				t.Errorf("%s: structured mode, and %s", mediaType, name)
			}
		}
		if key := got.header.Get("Idempotency-Key"); key != "orders/3/42@x1" {
			t.Errorf("%s: Idempotency-Key %q", mediaType, key)
		}
	}
}

func TestSeveralMessagesInBatchedMode(t *testing.T) {
	address, requests := serve(t, nil)
	r := open(t, Sink{Endpoint: endpoint.Endpoint{URL: address}, BatchSize: 10})
	if r.Batch() != 10 {
		t.Errorf("batches of %d", r.Batch())
	}
	type form struct{ typ, body, mediaType string }
	forms := []form{
		{"application/json", `{"a": [1.0, "<ü>"]}`, "application/json"},
		{"application/json", `{"a": `, "application/json"},
		{"application/vnd.x+json", `{"a":1}`, "application/vnd.x+json"},
		{"application/xml", "<a>\x01</a>", "application/xml"},
		{"", `{"a":1}`, "application/json"},
		{"", "plain \"text\"\n", "text/plain; charset=utf-8"},
		{"", "\x00\xff", "application/octet-stream"},
		{"application/json", "", "application/json"},
	}
	deliveries := make([]subscribe.Delivery, 0, len(forms)+1)
	for i, f := range forms {
		d := delivery("o/"+string(rune('0'+i)), f.body)
		d.Type = f.typ
		deliveries = append(deliveries, d)
	}
	deliveries[1].Key, deliveries[2].Key, deliveries[3].Key = []byte("\xff"), nil, []byte(" ")
	deliveries[2].Partition, deliveries[2].Time = "", time.Time{}
	gone := delivery("gone", "")
	gone.Body = nil
	deliveries = append(deliveries, gone)
	for i, err := range deliver(t, r, deliveries...) {
		if err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
	got := taskrig.Wait(t, requests, "the request")
	if len(got.events) != len(deliveries) || got.header.Get("Content-Type") != "application/cloudevents-batch+json" ||
		got.header.Get("Shardctl-Fencing-Token") != "7" || got.header["Idempotency-Key"] != nil {
		t.Fatalf("%d events, headers %v", len(got.events), got.header)
	}
	for i, f := range forms {
		e, want := got.events[i], f.body
		if i == 0 {
			want = `{"a":[1.0,"\u003cü\u003e"]}` // the same value, written without blanks
		}
		if string(e.Data()) != want || e.DataContentType() != f.mediaType || e.ID() != deliveries[i].ID {
			t.Errorf("%d: %s %q of %s, want %q of %s", i, e.ID(), e.Data(), e.DataContentType(), want, f.mediaType)
		}
	}
	key := func(e event.Event) string {
		ext := e.Extensions()
		text := func(name string) string { s, _ := ext[name].(string); return s }
		return strings.Join([]string{e.Subject(), text("partitionkey"), text("keybase64"), text("partition")}, ",")
	}
	for i, want := range []string{"k,k,,3", ",3,/w==,3", ",,,", ",3,IA==,3"} {
		if got := key(got.events[i]); got != want {
			t.Errorf("%d: key %s, want %s", i, got, want)
		}
	}
	last := got.events[len(forms)]
	if last.Data() != nil || last.DataContentType() != "" || !last.Time().Equal(at) || !got.events[2].Time().IsZero() {
		t.Errorf("without a body: %v; without a time: %v", last, got.events[2])
	}
	if !strings.Contains(got.body, `"attempt":2`) {
		t.Errorf("attempt is no number in %s", got.body)
	}
}

func TestTokenAndAuthorities(t *testing.T) {
	requests := make(chan seen, 10)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests <- read(t, r)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	tokenFile, caFile := filepath.Join(dir, "token"), filepath.Join(dir, "ca.pem")
	for path, content := range map[string][]byte{
		tokenFile: []byte("secret\n"),
		caFile:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, Sink{Endpoint: endpoint.Endpoint{
		URL: server.URL, TokenFile: tokenFile, CAFile: caFile,
		Method: "PUT",
	}})
	if err := deliver(t, r, delivery("a", "1"))[0]; err != nil {
		t.Fatal(err)
	}
	got := taskrig.Wait(t, requests, "the request")
	if got.header.Get("Authorization") != "Bearer secret" || got.method != "PUT" {
		t.Errorf("%s with %v", got.method, got.header)
	}
	if err := os.Remove(tokenFile); err != nil {
		t.Fatal(err)
	}
	if err := deliver(t, r, delivery("a", "1"))[0]; err == nil || !strings.Contains(err.Error(), "http.tokenFile") {
		t.Errorf("without the file: %v", err)
	}
	r = open(t, Sink{Endpoint: endpoint.Endpoint{URL: server.URL}})
	if err := deliver(t, r, delivery("a", "1"))[0]; err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without caFile: %v", err)
	}
}

// The URL's user and password are sent, and a client's own timeout holds.
func TestWhatOnlyAClientDoes(t *testing.T) {
	address, requests := serve(t, nil)
	r := open(t, Sink{Endpoint: endpoint.Endpoint{URL: strings.Replace(address, "http://", "http://user:secret@", 1)}})
	if err := deliver(t, r, delivery("a", "1"))[0]; err != nil {
		t.Fatal(err)
	}
	request := http.Request{Header: taskrig.Wait(t, requests, "the request").header}
	if user, password, ok := request.BasicAuth(); user != "user" || password != "secret" {
		t.Errorf("%v: %s, %s", ok, user, password)
	}
	release := make(chan struct{})
	hung, _ := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) }) // before the server is closed
	r = open(t, Sink{Endpoint: endpoint.Endpoint{URL: hung}, Timeout: time.Hour}, func(c *supervisor.Config) {
		c.HTTPClient = func(string) (*http.Client, error) {
			return &http.Client{Transport: http.DefaultTransport, Timeout: 50 * time.Millisecond}, nil
		}
	})
	if err := deliver(t, r, delivery("a", "1"))[0]; err == nil || !strings.Contains(err.Error(), "Client.Timeout") {
		t.Errorf("it waits longer than its client: %v", err)
	}
}

// What can never be sent is no failure of a message: the subscription does not begin.
func TestOpenChecksWhatRequestsNeed(t *testing.T) {
	env, _ := taskrig.Env(t)
	for want, sink := range map[string]Sink{
		"http.url: $(NOT_SET) is not set": {Endpoint: endpoint.Endpoint{URL: "$(NOT_SET)"}},
		"http.headers.A: $(NOT_SET)": {Endpoint: endpoint.Endpoint{
			URL:     "http://x",
			Headers: map[string]string{"A": "$(NOT_SET)"},
		}},
		"http.tokenFile: ": {Endpoint: endpoint.Endpoint{
			URL:       "http://x",
			TokenFile: "/no/such/file",
		}},
		"tls.caFile: open /no/such/file":      {Endpoint: endpoint.Endpoint{URL: "http://x", CAFile: "/no/such/file"}},
		"http.tls.caFile: $(NOT_SET) is not ": {Endpoint: endpoint.Endpoint{URL: "http://x", CAFile: "$(NOT_SET)"}},
	} {
		if _, err := sink.Open(t.Context(), env, ""); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for want, sink := range map[string]Sink{
		"url: is required":   {},
		"url: is not a URL":  {Endpoint: endpoint.Endpoint{URL: "ftp://x"}},
		"method: must be":    {Endpoint: endpoint.Endpoint{URL: "http://x", Method: "A B"}},
		"timeout: must be":   {Endpoint: endpoint.Endpoint{URL: "http://x"}, Timeout: -1},
		"batchSize: must be": {Endpoint: endpoint.Endpoint{URL: "http://x"}, BatchSize: MaxBatchSize + 1},
		"headers.Ce-Id: is set": {Endpoint: endpoint.Endpoint{
			URL:     "http://x",
			Headers: map[string]string{"Ce-Id": "1"},
		}},
		"Shardctl-X: is set": {Endpoint: endpoint.Endpoint{
			URL:     "http://x",
			Headers: map[string]string{"Shardctl-X": "1"},
		}},
		"Content-Type: is set": {Endpoint: endpoint.Endpoint{
			URL:     "http://x",
			Headers: map[string]string{"Content-Type": "1"},
		}},
		"Idempotency-Key: is se": {Endpoint: endpoint.Endpoint{
			URL:     "http://x",
			Headers: map[string]string{"Idempotency-Key": "1"},
		}},
	} {
		wrong := sink.Validate(kind.Use{})
		if len(wrong) != 1 || !strings.Contains(wrong[0].Error(), want) {
			t.Errorf("%v, want %q", wrong, want)
		}
	}
	wrong := Sink{Endpoint: endpoint.Endpoint{URL: "x", Method: "A B"}, BatchSize: -1, Timeout: -1}.Validate(kind.Use{})
	if len(wrong) != 4 {
		t.Errorf("%v, want all four", wrong)
	}
	fine := Sink{Endpoint: endpoint.Endpoint{URL: "$(URL)", Headers: map[string]string{
		"Accept":      "x",
		"Content-Typ": "y",
	}}, BatchSize: MaxBatchSize}
	if wrong := fine.Validate(kind.Use{}); len(wrong) > 0 {
		t.Error(wrong)
	}
}

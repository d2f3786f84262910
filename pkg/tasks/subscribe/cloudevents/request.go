package cloudevents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"

	"github.com/shardctl/shardctl/pkg/tasks/internal/endpoint"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// eventMessage is the Shardctl-Event of a request with messages.
const eventMessage = "message"

// newRequest makes deliveries one request: binary mode for one, batched mode for several.
func (r *receiver) newRequest(ctx context.Context, deliveries []subscribe.Delivery) (*http.Request, error) {
	events := make([]event.Event, len(deliveries))
	for i, d := range deliveries {
		var err error
		if events[i], err = newEvent(d, r.source); err != nil {
			return nil, err
		}
	}
	body := events[0].Data()
	if len(events) > 1 {
		var err error
		if body, err = json.Marshal(events); err != nil {
			return nil, fmt.Errorf("make a batch of CloudEvents: %w", err)
		}
	}
	request, err := r.sink.endpoint().Request(ctx, r.env, body)
	if err != nil {
		return nil, err
	}
	env := r.env
	env.Start = deliveries[0].Start
	endpoint.Describe(request.Header, env, eventMessage)
	if len(events) > 1 {
		request.Header.Set("Content-Type", format.JSONBatch.MediaType())
		// Without values it is not sent, but says that the request may be repeated on another connection, when the one
		// that was kept turns out to be closed. See http.Transport.
		request.Header["Idempotency-Key"] = []string{}
		return request, nil
	}
	request.Header.Set("Idempotency-Key", encoded(events[0].ID()))
	_, err = binding.Write(ctx, binding.ToMessage(&events[0]), nil, attributes(request.Header))
	return request, err
}

// attributes writes the attributes of an event as headers, as the HTTP binding has it. It implements
// [binding.BinaryWriter]. The body is set by who makes the request.
type attributes http.Header

func (attributes) Start(context.Context) error { return nil }
func (attributes) End(context.Context) error   { return nil }
func (attributes) SetData(io.Reader) error     { return nil }

func (a attributes) SetAttribute(attribute spec.Attribute, value any) error {
	if attribute.Kind() == spec.DataContentType {
		text, err := types.Format(value)
		http.Header(a).Set("Content-Type", text)
		return err
	}
	return a.SetExtension(attribute.Name(), value)
}

func (a attributes) SetExtension(name string, value any) error {
	text, err := types.Format(value)
	if err != nil {
		return fmt.Errorf("attribute %s: %w", name, err)
	}
	header, ok := headerNames[name]
	if !ok {
		header = headerName(name)
	}
	a[header] = []string{encoded(text)}
	return nil
}

// headerNames are the headers of the attributes that events have.
var headerNames = func() map[string]string {
	names := map[string]string{}
	for _, name := range []string{
		"specversion", "id", "source", "type", "subject", "time", extPartition, extPartitionKey, extKeyBase64, extAttempt,
		extRedelivered, extHeaders, extHeadersBase64,
	} {
		names[name] = headerName(name)
	}
	return names
}()

func headerName(attribute string) string { return http.CanonicalHeaderKey("Ce-" + attribute) }

// encoded is text as the value of a header: with percent, quotes, blanks and all that is not printable ASCII written as
// %XX, as the HTTP binding demands.
func encoded(text string) string {
	plain := func(c rune) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }
	if !strings.ContainsFunc(text, func(c rune) bool { return !plain(c) }) {
		return text
	}
	var b strings.Builder
	for _, c := range []byte(text) {
		if plain(rune(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

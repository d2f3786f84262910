package cloudevents

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/payload"
)

// eventMessage is the Shardctl-Event of a request with messages.
const eventMessage = "message"

// newRequest makes deliveries one request: binary mode for one, batched mode for several. A body that is an event
// itself goes in structured mode: by its type, a request in binary mode would be taken for that event.
func (r *receiver) newRequest(ctx context.Context, deliveries []subscribe.Delivery) (*http.Request, error) {
	if len(deliveries) > 1 {
		return r.newBatch(ctx, deliveries)
	}
	if format.IsFormat(strings.ToLower(strings.TrimSpace(deliveries[0].Type))) {
		return r.newStructured(ctx, deliveries[0])
	}
	request, err := r.describedRequest(ctx, deliveries[0], deliveries[0].Body)
	if err != nil {
		return nil, err
	}
	return request, setBinary(request.Header, r.same, deliveries[0])
}

func (r *receiver) newStructured(ctx context.Context, d subscribe.Delivery) (*http.Request, error) {
	e, err := newEvent(d, r.source)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("make a CloudEvent of message %s: %w", d.ID, err)
	}
	request, err := r.describedRequest(ctx, d, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", format.JSON.MediaType())
	request.Header.Set("Idempotency-Key", idempotencyKey(e.ID(), d.Message))
	return request, nil
}

func (r *receiver) newBatch(ctx context.Context, deliveries []subscribe.Delivery) (*http.Request, error) {
	events := make([]event.Event, len(deliveries))
	for i, d := range deliveries {
		var err error
		if events[i], err = newEvent(d, r.source); err != nil {
			return nil, err
		}
	}
	body, err := json.Marshal(events)
	if err != nil {
		return nil, fmt.Errorf("make a batch of CloudEvents: %w", err)
	}
	request, err := r.describedRequest(ctx, deliveries[0], body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", format.JSONBatch.MediaType())
	// Without values it is not sent, but says that the request may be repeated on another connection, when the one
	// that was kept turns out to be closed. See http.Transport.
	request.Header["Idempotency-Key"] = []string{}
	return request, nil
}

// describedRequest is a request that says of which task, run and delivery it is.
func (r *receiver) describedRequest(ctx context.Context, d subscribe.Delivery, body []byte) (*http.Request, error) {
	request, err := r.sink.Request(ctx, r.env, body)
	if err != nil {
		return nil, err
	}
	described := r.described
	if d.Start != r.env.Start {
		env := r.env
		env.Start = d.Start
		described = endpoint.Described(env, eventMessage)
	}
	maps.Copy(request.Header, described)
	endpoint.SetTrace(request.Header, d.Trace)
	return request, nil
}

// mostAttributes is the capacity for the values of all headers that setBinary sets.
const mostAttributes = 16

// setBinary writes the attributes of an event as headers, as the binary mode of the HTTP binding has it. The SDK would
// write the same, in several times as many allocations. Each attribute that is the same for all events is among same.
func setBinary(header, same http.Header, d subscribe.Delivery) error {
	a, err := attributesOf(d)
	if err != nil {
		return err
	}
	maps.Copy(header, same)
	texts := make([]string, 0, mostAttributes) // one allocation for all
	set := func(name, value string) {
		if value != "" {
			texts = append(texts, value)
			header[name] = texts[len(texts)-1 : len(texts) : len(texts)]
		}
	}
	set("Idempotency-Key", idempotencyKey(a.id, d.Message))
	set("Ce-Id", encoded(a.id))
	if d.Origin != "" {
		set("Ce-Source", header.Get("Ce-Source")+encoded(fragment(d.Message)))
	}
	if !a.time.IsZero() {
		set("Ce-Time", a.time.UTC().Format(time.RFC3339Nano))
	}
	set("Ce-Subject", encoded(a.subject))
	set("Ce-Partition", encoded(a.partition))
	set("Ce-Partitionkey", encoded(a.partitionKey))
	set("Ce-Keybase64", base64.StdEncoding.EncodeToString(a.key))
	set("Ce-Attempt", strconv.Itoa(a.attempt))
	if a.redelivered {
		set("Ce-Redelivered", "true")
	}
	set("Ce-Headers", encoded(a.headers))
	set("Ce-Headersbase64", encoded(a.headersBase64))
	set("Content-Type", strings.TrimSpace(payload.MediaType(d.Message)))
	return nil
}

// idempotencyKey is the header of that name. It stands without the source, so it has the origin itself.
func idempotencyKey(id string, m subscribe.Message) string {
	if m.Origin != "" {
		id += "@" + payload.Clean(m.Origin)
	}
	return encoded(id)
}

// sameOf are the headers of the attributes that are the same for all events of a source.
func sameOf(source string) http.Header {
	return http.Header{"Ce-Specversion": {"1.0"}, "Ce-Type": {EventType}, "Ce-Source": {encoded(source)}}
}

// encoded is text as the value of a header: with percent, quotes, blanks and all that is not printable ASCII written as
// %XX, as the HTTP binding demands.
func encoded(text string) string {
	first := 0
	for first < len(text) && plain(text[first]) {
		first++
	}
	if first == len(text) {
		return text
	}
	var b strings.Builder
	for _, c := range []byte(text) {
		if plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func plain(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }

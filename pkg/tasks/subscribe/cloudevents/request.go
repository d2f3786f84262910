package cloudevents

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/shardctl/shardctl/pkg/tasks/internal/endpoint"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
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
	request, err := r.sink.endpoint().Request(ctx, r.env, body)
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

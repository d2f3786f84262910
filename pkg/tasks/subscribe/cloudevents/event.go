package cloudevents

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/payload"
)

// EventType is the type attribute of every event.
const EventType = "dev.shardctl.message"

// Extension attributes. Of these partitionkey is described by the specification's extensions.
const (
	extPartition     = "partition"     // Message.Partition
	extPartitionKey  = "partitionkey"  // what order is kept within: the key where it is text, else the partition
	extKeyBase64     = "keybase64"     // the key where it is not text, or blank
	extAttempt       = "attempt"       // Delivery.Attempt
	extRedelivered   = "redelivered"   // Message.Again, where it is so
	extHeaders       = "headers"       // Message.Headers as a JSON object
	extHeadersBase64 = "headersbase64" // those whose value is not UTF-8
)

// newEvent makes a delivery an event. No attribute holds a control character.
func newEvent(d subscribe.Delivery, source string) (event.Event, error) {
	e := event.New()
	e.SetID(payload.Clean(d.ID))
	e.SetSource(source)
	e.SetType(EventType)
	if year := d.Time.UTC().Year(); !d.Time.IsZero() && year >= 0 && year <= 9999 { // those of RFC 3339
		e.SetTime(d.Time)
	}
	e.SetExtension(extAttempt, d.Attempt)
	if d.Again {
		e.SetExtension(extRedelivered, true)
	}
	setKey(&e, d.Message)
	if err := setHeaders(&e, d.Message); err != nil {
		return e, err
	}
	setData(&e, d.Message)
	if err := e.Validate(); err != nil {
		return e, fmt.Errorf("make a CloudEvent of message %s: %w", d.ID, err)
	}
	return e, nil
}

func setKey(e *event.Event, m subscribe.Message) {
	partition := payload.Clean(m.Partition)
	if partition != "" {
		e.SetExtension(extPartition, partition)
	}
	within := partition
	switch isText := payload.IsText(m.Key) && strings.TrimSpace(string(m.Key)) != ""; {
	case isText:
		within = string(m.Key)
		e.SetSubject(within)
	case len(m.Key) > 0:
		e.SetExtension(extKeyBase64, m.Key)
	}
	if within != "" {
		e.SetExtension(extPartitionKey, within)
	}
}

func setHeaders(e *event.Event, m subscribe.Message) error {
	text, binary := payload.Headers(m)
	if text != nil {
		value, err := json.Marshal(text)
		if err != nil {
			return fmt.Errorf("headers of message %s: %w", m.ID, err)
		}
		e.SetExtension(extHeaders, string(value))
	}
	if binary != nil {
		value, err := json.Marshal(binary)
		if err != nil {
			return fmt.Errorf("headers of message %s: %w", m.ID, err)
		}
		e.SetExtension(extHeadersBase64, string(value))
	}
	return nil
}

func setData(e *event.Event, m subscribe.Message) {
	mediaType, form := payload.Of(m)
	if mediaType != "" {
		e.SetDataContentType(mediaType)
	}
	e.DataEncoded = m.Body
	e.DataBase64 = form == payload.Binary
	if form == payload.JSON {
		// The SDK writes other JSON types, such as application/x+json, as a string: that would be another value.
		media := e.DataMediaType()
		e.DataBase64 = media != event.ApplicationJSON && media != event.TextJSON
	}
}

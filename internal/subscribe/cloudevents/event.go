package cloudevents

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/payload"
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

// attributes are those in which the events of one run differ. One that is empty is left out. None holds a control
// character.
type attributes struct {
	id, subject   string
	time          time.Time
	partition     string
	partitionKey  string
	key           []byte // where it is not text
	attempt       int
	redelivered   bool
	headers       string
	headersBase64 string
}

func attributesOf(d subscribe.Delivery) (attributes, error) {
	a := attributes{
		id: strings.TrimSpace(payload.Clean(d.ID)), partition: payload.Clean(d.Partition), attempt: d.Attempt,
		redelivered: d.Again,
	}
	if a.id == "" {
		return a, fmt.Errorf("make a CloudEvent of message %q: it has no id", d.ID)
	}
	if year := d.Time.UTC().Year(); !d.Time.IsZero() && year >= 0 && year <= 9999 { // those of RFC 3339
		a.time = d.Time
	}
	a.partitionKey = a.partition
	if subject := strings.TrimSpace(string(d.Key)); subject != "" && payload.IsText(d.Key) {
		a.subject, a.partitionKey = subject, string(d.Key)
	} else {
		a.key = d.Key
	}
	if d.Headers == nil && d.Type == "" {
		return a, nil
	}
	text, binary := payload.Headers(d.Message)
	var err error
	if a.headers, err = object(text); err == nil {
		a.headersBase64, err = object(binary)
	}
	if err != nil {
		return a, fmt.Errorf("headers of message %s: %w", d.ID, err)
	}
	return a, nil
}

// object is a map as JSON; empty where there is none.
func object[V any](m map[string]V) (string, error) {
	if m == nil {
		return "", nil
	}
	text, err := json.Marshal(m)
	return string(text), err
}

// fragment ends the source of the event of a message: with that, no other event has its id.
func fragment(m subscribe.Message) string {
	if m.Origin == "" {
		return ""
	}
	return "#" + url.PathEscape(m.Origin)
}

// newEvent makes a delivery an event, for a request in batched mode.
func newEvent(d subscribe.Delivery, source string) (event.Event, error) {
	e := event.New()
	a, err := attributesOf(d)
	if err != nil {
		return e, err
	}
	e.SetID(a.id)
	e.SetSource(source + fragment(d.Message))
	e.SetType(EventType)
	if !a.time.IsZero() {
		e.SetTime(a.time)
	}
	if a.subject != "" {
		e.SetSubject(a.subject)
	}
	if len(a.key) > 0 {
		e.SetExtension(extKeyBase64, a.key)
	}
	e.SetExtension(extAttempt, a.attempt)
	if a.redelivered {
		e.SetExtension(extRedelivered, true)
	}
	for name, value := range map[string]string{
		extPartition: a.partition, extPartitionKey: a.partitionKey, extHeaders: a.headers,
		extHeadersBase64: a.headersBase64,
	} {
		if value != "" {
			e.SetExtension(name, value)
		}
	}
	setData(&e, d.Message)
	if err := e.Validate(); err != nil {
		return e, fmt.Errorf("make a CloudEvent of message %s: %w", d.ID, err)
	}
	return e, nil
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

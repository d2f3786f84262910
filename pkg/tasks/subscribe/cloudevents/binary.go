package cloudevents

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/payload"
)

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

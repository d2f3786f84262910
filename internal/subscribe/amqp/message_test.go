package amqp

import (
	"errors"
	"maps"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/shardctl/shardctl/internal/subscribe"
)

func TestHeaderTexts(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, value := range map[string]any{
		"": nil, "a": "a", "b": []byte("b"), "7": int64(7), "true": true, "1.5": 1.5, "2026-01-02T03:04:05Z": at,
		"-0.05": amqp091.Decimal{Scale: 2, Value: -5}, "12": amqp091.Decimal{Value: 12},
		`{"a":[1,"x"]}`: amqp091.Table{"a": []any{int32(1), "x"}},
	} {
		if got := text(value); got != want {
			t.Errorf("%#v is %q, want %q", value, got, want)
		}
	}
}

func TestMessage(t *testing.T) {
	r := newReader(Source{Queue: "q"})
	m := r.message(&amqp091.Delivery{
		Headers:  amqp091.Table{"a": "1", "reply-to": "own", countHeader: int64(2), offsetHeader: int64(42)},
		Exchange: "x", RoutingKey: "key", ContentEncoding: "gzip", ReplyTo: "there", MessageId: "id",
	})
	if m.ID != "q/42" || string(m.Key) != "key" || !m.Again {
		t.Errorf("%+v", m)
	}
	want := map[string]string{"a": "1", "reply-to": "own", "content-encoding": "gzip"}
	if !maps.Equal(m.Headers, want) {
		t.Errorf("the headers are %v, want %v", m.Headers, want)
	}
	if m := r.message(&amqp091.Delivery{RoutingKey: "q", MessageId: "id"}); m.Key != nil || m.ID != "q/id" || m.Again {
		t.Errorf("%+v: the routing key of the default exchange is the queue", m)
	}
	r.keyHeader = "tenant"
	if m := r.message(&amqp091.Delivery{
		Exchange: "x", RoutingKey: "key",
		Headers: amqp091.Table{"tenant": int64(7)},
	}); string(
		m.Key) != "7" {
		t.Errorf("the key is %q, want 7", m.Key)
	}
}

// What would have a dead letter expire, copied elsewhere or refused is left out.
func TestLetter(t *testing.T) {
	d := &amqp091.Delivery{
		Headers:    amqp091.Table{"a": int64(1), "CC": []any{"elsewhere"}, countHeader: int64(2)},
		Expiration: "1000", UserId: "somebody", CorrelationId: "c", DeliveryMode: amqp091.Transient,
	}
	p := letter(subscribe.Message{Key: []byte("k"), Ref: d}, subscribe.Why{Attempts: 3, Err: errors.New("500")})
	if p.Expiration != "" || p.UserId != "" || p.CorrelationId != "c" || p.DeliveryMode != amqp091.Persistent {
		t.Errorf("%+v", p)
	}
	if p.Headers["CC"] != nil || p.Headers[countHeader] != nil || p.Headers["a"] != int64(1) ||
		p.Headers[deadKey] != "k" ||
		p.Headers["Shardctl-Dead-Error"] != "500" {
		t.Errorf("the headers are %v", p.Headers)
	}
}

func TestPrefetch(t *testing.T) {
	for _, c := range []struct {
		source         Source
		inFlight, want int
	}{
		{Source{}, 1, 1},
		{Source{}, 64, 64},
		{Source{Prefetch: 10}, 64, 64},
		{Source{Prefetch: 100}, 64, 100},
		{Source{}, 100_000, 65535},
		{Source{Stream: &Stream{}}, 1, 100},
		{Source{Stream: &Stream{}, Prefetch: 2}, 1, 2},
	} {
		if got := c.source.prefetch(c.inFlight); got != c.want {
			t.Errorf("%+v with %d in flight: %d, want %d", c.source, c.inFlight, got, c.want)
		}
	}
}

// Read is the message of a delivery.
func Read(d amqp091.Delivery) subscribe.Message {
	return newReader(Source{Queue: "q"}).message(&d)
}

// The digest of a message is of what was published: what the broker adds changes nothing.
func TestDigestIsOfWhatWasPublished(t *testing.T) {
	of := func(change func(d *amqp091.Delivery)) string {
		d := amqp091.Delivery{
			Body: []byte("a"), MessageId: "1", ContentType: "text/plain", Timestamp: time.Unix(7, 0),
			Headers: amqp091.Table{"tenant": "x"},
		}
		change(&d)
		return digest(&d)
	}
	is := of(func(*amqp091.Delivery) {})
	for name, change := range map[string]func(d *amqp091.Delivery){
		"offset":  func(d *amqp091.Delivery) { d.Headers[offsetHeader] = int64(5) },
		"x-":      func(d *amqp091.Delivery) { d.Headers["x-exchange"] = "orders" },
		"routing": func(d *amqp091.Delivery) { d.RoutingKey, d.Exchange, d.DeliveryTag = "k", "e", 7 },
		"again":   func(d *amqp091.Delivery) { d.Redelivered = true },
	} {
		if of(change) != is {
			t.Errorf("%s makes it another message", name)
		}
	}
	for name, change := range map[string]func(d *amqp091.Delivery){
		"body":   func(d *amqp091.Delivery) { d.Body = []byte("b") },
		"id":     func(d *amqp091.Delivery) { d.MessageId = "" },
		"type":   func(d *amqp091.Delivery) { d.ContentType = "" },
		"time":   func(d *amqp091.Delivery) { d.Timestamp = time.Time{} },
		"header": func(d *amqp091.Delivery) { d.Headers["tenant"] = "y" },
	} {
		if of(change) == is {
			t.Errorf("%s makes no other message", name)
		}
	}
}

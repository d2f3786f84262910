package amqp

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// Headers that the broker adds to each delivery. They are no part of what was published.
const (
	offsetHeader = "x-stream-offset"
	countHeader  = "x-delivery-count" // of quorum queues
)

// reader makes messages of deliveries.
type reader struct {
	queue     string
	keyHeader string
	unnamed   string // begins the IDs of messages without one: other connections begin theirs differently
}

func newReader(s Source) reader {
	return reader{queue: s.Queue, keyHeader: s.KeyHeader, unnamed: s.Queue + "#" + rand.Text()[:10] + "-"}
}

func (r reader) message(d *amqp091.Delivery) subscribe.Message {
	count, _ := d.Headers[countHeader].(int64)
	return subscribe.Message{
		ID:      r.id(d),
		Key:     r.key(d),
		Body:    d.Body,
		Type:    d.ContentType,
		Headers: headers(d),
		Time:    d.Timestamp,
		Again:   d.Redelivered || count > 0,
		Ref:     d,

		Delivered: int(count),
	}
}

// id is the offset of a stream's message, else what its publisher called it. Delivery tags begin again in each
// connection, and a receiver that knows IDs again must never take one message for another.
func (r reader) id(d *amqp091.Delivery) string {
	if offset, ok := offsetOf(d); ok {
		return r.queue + "/" + strconv.FormatInt(offset, 10)
	}
	if d.MessageId != "" {
		return r.queue + "/" + d.MessageId
	}
	return r.unnamed + strconv.FormatUint(d.DeliveryTag, 10)
}

// key is nil where no one gave one: through the default exchange the routing key is only the queue's name.
func (r reader) key(d *amqp091.Delivery) []byte {
	if r.keyHeader != "" {
		value, ok := d.Headers[r.keyHeader]
		if !ok {
			return nil
		}
		return []byte(text(value))
	}
	if d.Exchange == amqp091.DefaultExchange || d.RoutingKey == "" {
		return nil
	}
	return []byte(d.RoutingKey)
}

// offsetOf is the place of a stream's message.
func offsetOf(d *amqp091.Delivery) (int64, bool) {
	offset, ok := d.Headers[offsetHeader].(int64)
	return offset, ok
}

// headers are the published ones as texts. Properties that a receiver may need are among them, by the protocol's names,
// unless a header has that name.
func headers(d *amqp091.Delivery) map[string]string {
	all := make(map[string]string, len(d.Headers))
	for name, value := range map[string]string{
		"app-id": d.AppId, "content-encoding": d.ContentEncoding, "correlation-id": d.CorrelationId,
		"reply-to": d.ReplyTo, "type": d.Type, "user-id": d.UserId,
	} {
		if value != "" {
			all[name] = value
		}
	}
	for name, value := range d.Headers {
		if name != offsetHeader && name != countHeader {
			all[name] = text(value)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// text is a value of a header: tables and lists as JSON.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case amqp091.Decimal:
		return decimal(v)
	case amqp091.Table, []any:
		if b, err := json.Marshal(v); err == nil {
			return string(b)
		}
	}
	return fmt.Sprint(value)
}

// decimal is a number with its last digits behind the point.
func decimal(d amqp091.Decimal) string {
	if d.Scale == 0 {
		return strconv.FormatInt(int64(d.Value), 10)
	}
	sign, value := "", int64(d.Value)
	if value < 0 {
		sign, value = "-", -value
	}
	digits := fmt.Sprintf("%0*d", int(d.Scale)+1, value)
	point := len(digits) - int(d.Scale)
	return sign + digits[:point] + "." + digits[point:]
}

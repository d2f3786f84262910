package subscribe

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Message is one message of a source.
type Message struct {
	// ID is the message's place, as orders/3/42. It is unique in the topic, and the same whenever the broker gives
	// the message again, to any replica. People see it as the message's position.
	ID string
	// Origin distinguishes the topic from others of its name, at another broker or made again, where the broker has an
	// ID for it. Empty: it has none.
	Origin string
	// Partition is what order is kept within. Messages of one partition come in order. Empty where there is only one.
	Partition string
	// Key is what order is kept within where several messages are in flight. Nil: no order is kept among these.
	Key     []byte
	Body    []byte
	Type    string            // media type of Body, such as application/json; empty: not known
	Headers map[string]string // as published, less those that Type came from
	Time    time.Time         // when it was published; zero: not known
	Again   bool              // the broker says that it has given the message before
	// Delivered is how often the message was delivered before, as far as the source knows; at least 0. A broker's count
	// may be too high: it has messages that were sent ahead, and never tried. So one attempt is always left.
	Delivered int
	// Ref is the source's own, to find the message again in Ack. No one else looks at it.
	Ref any
}

// Unique is the ID, and the origin where there is one. It is for receivers that remember what they have worked on: IDs
// begin again in a topic that was deleted and made again.
func (m Message) Unique() string {
	if m.Origin == "" {
		return m.ID
	}
	return m.ID + "@" + m.Origin
}

// Delivery is one message on its way to a receiver.
type Delivery struct {
	Message
	Attempt     int // from 1; those of earlier runs count, as far as the source knows them
	tasks.Start     // has the fencing token
	// Trace is the delivery's, to pass on; empty without tracing.
	Trace taskrun.TraceContext
}

// Lag is how far a subscription is behind. A negative value is not known.
type Lag struct {
	Messages int64   // published and not yet acknowledged
	Seconds  float64 // age of the oldest of them
}

// Unknown is the lag of a source that does not know it.
var Unknown = Lag{Messages: -1, Seconds: -1}

// Why is why a message became a dead letter.
type Why struct {
	tasks.Identity        // of the task
	Source         string // kind and topic it came from, as kafka:orders
	ID             string // of the message
	Attempts       int
	Err            error // of the last attempt
}

// Headers are what a dead letter carries besides the headers of its message.
func (w Why) Headers() map[string]string {
	return map[string]string{
		"Shardctl-Dead-Task":     w.Group + "/" + w.Name,
		"Shardctl-Dead-Source":   w.Source,
		"Shardctl-Dead-Id":       w.ID,
		"Shardctl-Dead-Attempts": strconv.Itoa(w.Attempts),
		"Shardctl-Dead-Error":    clipped(w.Err.Error()),
	}
}

// maxError is how much of an error a dead letter carries, in bytes: brokers bound what a message may hold.
const maxError = 1 << 10

// clipped is the beginning of a text that is too long, of whole characters.
func clipped(text string) string {
	const more = "…"
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError-len(more)], "") + more
}

// SinkKind is a kind of sink. Its field is one of deliver.
type SinkKind = decode.Kind[Sink]

// Sink is where messages go, with its fields filled in. It is a value that is never changed, of a type that
// [reflect.DeepEqual] compares. Fields are as written: $(NAME) in them is replaced at each start or request.
type Sink interface {
	// Kind is the name of its kind.
	Kind() string
	// Validate says what is wrong with it, all at once, with paths within the field.
	Validate(use kind.Use) []decode.FieldError
	// Print is what stands in a configuration for it: text or [decode.Fields].
	Print(use kind.Use) any
	// Open makes a receiver for one run of a task. Of env it may use everything until Close returns. source is the kind
	// and the topic that the messages come from, as kafka:orders.
	Open(ctx context.Context, env taskrun.Env, source string) (Receiver, error)
}

// Batching is a Sink that may deliver several messages at once.
type Batching interface {
	Sink
	// MostAtOnce is the field that says how many at most, and its value.
	MostAtOnce() (field string, most int)
}

// Together marks an error with which all deliveries under way have failed, such as the end of the process that had
// them. One of the messages may have been the reason. Without it such an error counts as a failed attempt of each.
func Together(err error) error { return flow.Together(err) }

// Rejected marks the error of a message that its receiver will never take. With retry.deadLetter it becomes a dead
// letter at once. Without, it is an error like others.
func Rejected(err error) error { return flow.Rejected(err) }

// RetryAfter marks an error with how long the receiver asks to wait. The message waits at least so long, up to
// retry.backoff.max.
func RetryAfter(err error, wait time.Duration) error { return flow.RetryAfter(err, wait) }

// Receiver works on messages. Deliver may be called concurrently, and Close once all calls have returned.
type Receiver interface {
	// Deliver has messages worked on, and says for each how that ended, in their order: nil is success. After an error
	// nothing is known of the message, and it is delivered again. An error of [Together] counts for one message at
	// most, which others are not delivered with any more. Deliver returns soon after ctx ends.
	Deliver(ctx context.Context, deliveries []Delivery) []error
	// Batch is how many messages one Deliver takes at most, at least 1.
	Batch() int
	// Close ends what the receiver began, and returns when nothing of it is left. Where ctx ends, it is in a hurry.
	Close(ctx context.Context) error
}

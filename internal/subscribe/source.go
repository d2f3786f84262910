// Package subscribe is the work of subscriptions: a task receives the messages of a topic, a queue or a stream, and has
// each worked on before it acknowledges it.
//
// Two narrow interfaces meet in it. A [Source] is where messages come from: packages kafka, redis, nats, amqp and mqtt
// beside this one. A [Sink] is where they go: packages cloudevents, jsonlines and function. Every source works with
// every sink. [NewKind] makes a source a kind of task.
//
// Delivery is at least once. A message is acknowledged after its delivery has succeeded, or after the broker has
// confirmed its dead letter. Nothing is acknowledged after the lease has ended.
package subscribe

import (
	"context"
	"errors"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// SourceKind is a kind of source. Its field is one of a task.
type SourceKind = decode.Kind[Source]

// Source is where messages come from, with its fields filled in. It is a value that is never changed, of a type that
// [reflect.DeepEqual] compares. Fields are as written: $(NAME) in them is replaced at each Open.
type Source interface {
	// Kind is the name of its kind.
	Kind() string
	// Topic is what it subscribes to, as written, for people and for the receiver.
	Topic() string
	// Validate says what is wrong with it, all at once, with paths within the field.
	Validate() []decode.FieldError
	// Print is what stands in a configuration for it, defaults filled in, passwords hidden.
	Print() decode.Fields
	// Open connects and begins where the subscription was left. It returns when messages can be received, or with an
	// error that names the broker, the topic and what to do. Open is tried again with backoff, so it neither retries
	// for long nor waits for a topic that does not exist. An error that wraps [ErrStop] ends the task as failed.
	Open(ctx context.Context, s Session) (Subscription, error)
}

// What sources' fields may hold. The fields start and missing say where to begin, and what to do about a position that
// is no longer there; the field offsets says where the position is kept.
const (
	Earliest = "earliest"
	Latest   = "latest"
	Stop     = "stop" // fail with an error that wraps [ErrStop]

	Broker = "broker"
	Store  = "store" // with the lock, as a checkpoint
)

// MissingField is what the field missing may hold, which to stands for.
func MissingField(to *string) field.Text {
	return field.Text{To: to, Default: Stop, OneOf: []string{Earliest, Latest, Stop}}
}

// OffsetsField is what the field offsets may hold, which to stands for.
func OffsetsField(to *string) field.Text {
	return field.Text{To: to, Default: Broker, OneOf: []string{Broker, Store}}
}

// ErrStop says that a subscription must not go on without somebody's decision: a checkpoint is gone, say, and the
// configuration says stop.
var ErrStop = errors.New("subscription stopped")

// Session is what a source is opened with.
type Session struct {
	tasks.Identity // of the task

	Token    int64 // the fencing token of this run
	InFlight int   // most messages that are received and not acknowledged; at least 1
	// Checkpoint keeps a value with the lock, for sources that keep their position in the store.
	Checkpoint Checkpoint
	// Expand replaces the variables in a text; field names it in errors, as kafka.topic.
	Expand func(field, text string) (string, error)
	// Trouble says what is wrong while the subscription goes on; nil that nothing is any more. It does not block.
	Trouble func(error)
	Log     logr.Logger
}

// LogBeginning says that no position was kept, and where in its topic the subscription therefore begins.
func LogBeginning(log logr.Logger, position string) {
	log.Info("No position was kept, beginning", "position", position)
}

// Checkpoint is a value kept with the lock, fenced by its token: of package elect's Lease. The first Value of a new
// owner makes every SetValue of an earlier one fail.
type Checkpoint interface {
	// Value is what was set last, nil when nothing was. Call it before the first SetValue.
	Value(ctx context.Context) ([]byte, error)
	// SetValue returns once the value is kept. It fails with an error that wraps elect.ErrLeaseLost when the key has,
	// or may have, another owner.
	SetValue(ctx context.Context, value []byte) error
}

// Subscription is an open subscription. One goroutine calls Receive. Ack, DeadLetter and Lag may be called while it
// goes on, Ack by one goroutine at a time. Close is called once, when all other calls have returned.
//
// After an error of Receive, Ack or DeadLetter that is not their context's, the subscription is closed and opened
// again. What was not acknowledged must then come again.
type Subscription interface {
	// Receive waits for messages and returns from 1 to most of them. It returns soon after ctx ends.
	Receive(ctx context.Context, most int) ([]Message, error)
	// Ack returns once the broker, or the checkpoint, has confirmed that the messages were worked on. Where Cumulative,
	// those of a partition come in the order of Receive, and without gaps.
	Ack(ctx context.Context, messages []Message) error
	// Cumulative says that to acknowledge a message acknowledges all before it in its partition.
	Cumulative() bool
	// DeadLetter publishes the message to another topic (queue, stream, subject) of the broker, and returns once that
	// is confirmed. Why is added as headers, see [Why.Headers]. It may be called concurrently.
	DeadLetter(ctx context.Context, to string, m Message, why Why) error
	// Close ends the connection. What was received and not acknowledged is given back, where the broker has such a
	// thing.
	Close(ctx context.Context) error
}

// Pausing is a Subscription with several partitions, which can leave some of them out. With it a partition in which a
// message fails takes no messages in flight from the others.
type Pausing interface {
	Subscription
	// Pause has Receive give messages of all partitions but these, until the next call. It is not called while Receive
	// goes on.
	Pause(partitions []string)
}

// Lagging is a Subscription that knows how far it is behind.
type Lagging interface {
	Subscription
	// Lag asks the broker.
	Lag(ctx context.Context) (Lag, error)
}

// Keeping is a Subscription that keeps how often messages were delivered. Without it attempts begin again with each
// owner, unless the broker counts.
type Keeping interface {
	Subscription
	// KeepDelivered keeps Delivered of messages that are not acknowledged, and returns once that is confirmed. After
	// the next Open they come with it. What was kept of other messages stays, as far as there is space; 0 forgets a
	// message. It is not called while Ack goes on. After an error it is tried again later.
	KeepDelivered(ctx context.Context, messages []Message) error
}

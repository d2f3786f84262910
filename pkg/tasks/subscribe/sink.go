package subscribe

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/flow"
)

// SinkKind reads one kind of sink from a configuration. Its methods may be called concurrently.
type SinkKind interface {
	// Name is the field of deliver that chooses the sink, such as http.
	Name() string
	// Schema is the JSON Schema (draft 2020-12) of the field's value, as of [tasks.Kind].
	Schema() string
	// Parse reads the field's value, which has passed the schema.
	Parse(n *decode.Node, r *decode.Reader) Sink
}

// Sink is where messages go, with its fields filled in. It is a value that is never changed, of a type that
// [reflect.DeepEqual] compares. Fields are as written: $(NAME) in them is replaced at each start or request.
type Sink interface {
	// Kind is the name of its kind.
	Kind() string
	// Validate says what is wrong with it, all at once, with paths within the field.
	Validate(use tasks.Use) []decode.FieldError
	// Print is what stands in a configuration for it: text or [decode.Fields].
	Print(use tasks.Use) any
	// Open makes a receiver for one run of a task. Of env it may use everything until Close returns.
	Open(ctx context.Context, env tasks.Env, limits Limits) (Receiver, error)
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

// Limits are what the subscription says of its deliveries.
type Limits struct {
	InFlight int    // most deliveries at once, at least 1
	Source   string // kind and topic, as kafka:orders: where the messages come from
}

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

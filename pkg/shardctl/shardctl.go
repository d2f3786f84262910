// Package shardctl builds a shardctl program of one's own: the whole command line, with Go functions that
// configurations name in their callback fields. A service that spreads its own work and needs neither YAML nor commands
// embeds package shard instead.
//
// The main function of such a program is one call:
//
//	func main() {
//		shardctl.Main(shardctl.Functions{
//			Tasks:    map[string]tasks.Callback{"reports": writeReports},
//			Messages: map[string]shardctl.Handler{"orders": saveOrder},
//		})
//	}
//
// It is built and deployed as shardctl itself is: "orders run --config orders.yaml" runs a replica.
package shardctl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/program"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/function"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Functions are the Go functions that configurations may name, by name. Names are not empty, and one name must not stand
// in both Tasks and Messages. All replicas of a cluster should have the same ones.
type Functions struct {
	// Tasks are what the field callback of a task runs.
	Tasks map[string]tasks.Callback
	// Messages are what deliver.callback of a subscription calls for each message.
	Messages map[string]Handler
	// Lists are what discover.callback of a group asks for what exists.
	Lists map[string]Lister
}

// Handler processes one message. Returning nil acknowledges it. After an error or a panic the message is redelivered as
// the subscription's retry says. A Handler may be called concurrently, for as many messages as maxInFlight.
//
// ctx ends, with a cause, when the work has to stop. The Handler must then return promptly, since the task's key is not
// handed over while it runs. Writes should carry run.Token, so that what they reach can refuse stale owners.
type Handler func(ctx context.Context, message Message, run tasks.Run) error

// Message is one message of a subscription.
type Message struct {
	// ID identifies the message, also among topics of its name that were deleted and created again.
	ID string
	// Partition is the unit of ordering; empty if the source has only one.
	Partition string
	// Key is what the source orders messages by within a partition; nil if there is none.
	Key  []byte
	Body []byte
	// Type is the media type of Body, such as application/json; empty if unknown.
	Type    string
	Headers map[string]string
	// Published is the zero time if unknown.
	Published time.Time
	// Attempt counts deliveries from 1, including those of earlier runs as far as the source knows them.
	Attempt int
}

// Rejected marks the error of a [Handler] as permanent: the message becomes a dead letter at once.
func Rejected(err error) error { return subscribe.Rejected(err) }

// RetryAfter marks the error of a [Handler] with how long to wait before the message is delivered again. The wait is
// limited by the subscription's retry.backoff.max.
func RetryAfter(err error, wait time.Duration) error { return subscribe.RetryAfter(err, wait) }

// Lister returns everything that exists now, in any order. An error keeps the list of before. It must return promptly
// once ctx is done; it is not called again before it has returned.
type Lister func(ctx context.Context) ([]Item, error)

// Item is something that exists, of which the group's template makes a task.
type Item struct {
	// Name is what it is called where it was found, 1 to 1024 bytes.
	Name string
	// Partition is the part of it, a decimal number without leading zeros; empty if it is not divided.
	Partition string
	// Labels of the task take precedence over those of the template.
	Labels map[string]string
	// Weight of the task, from 1 to 1,000,000; 0 means that of the template.
	Weight int
}

// Main runs the command line of this process with f and exits with its code. A replica starts its executable a second
// time with the same arguments, so Main must be reached whenever the executable runs, before anything else has side
// effects. Functions that cannot be registered are reported on standard error, with exit code 78.
func Main(f Functions) {
	options, err := f.options()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(exitConfig)
	}
	program.Main(options)
}

// exitConfig is EX_CONFIG of sysexits.h, after which supervisors do not start a replica again.
const exitConfig = 78

func (f Functions) options() (program.Options, error) {
	o := program.Options{Version: version(), Callbacks: &tasks.Registry{}, Listers: discover.Functions{}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(f.Tasks)) {
		errs = append(errs, o.Callbacks.Register(name, f.Tasks[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Messages)) {
		errs = append(errs, function.Handle(o.Callbacks, name, f.Messages[name].deliver()))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Lists)) {
		switch {
		case name == "":
			errs = append(errs, errors.New("register lister: its name is empty"))
		case f.Lists[name] == nil:
			errs = append(errs, fmt.Errorf("register lister %q: it is nil", name))
		default:
			o.Listers[name] = f.Lists[name].list()
		}
	}
	return o, errors.Join(errs...)
}

// deliver is nil for a nil Handler, which cannot be registered.
func (h Handler) deliver() function.Handler {
	if h == nil {
		return nil
	}
	return func(ctx context.Context, d subscribe.Delivery, run tasks.Run) error {
		return h(ctx, Message{
			ID: d.Unique(), Partition: d.Partition, Key: d.Key, Body: d.Body, Type: d.Type, Headers: d.Headers,
			Published: d.Time, Attempt: d.Attempt,
		}, run)
	}
}

func (l Lister) list() discover.Function {
	return func(ctx context.Context) ([]discover.Found, error) {
		items, err := l(ctx)
		found := make([]discover.Found, len(items))
		for i, item := range items {
			found[i] = discover.Found(item)
		}
		return found, err
	}
}

const module = "github.com/shardctl/shardctl"

// version is that of the shardctl module in this program, or dev.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return "dev"
}

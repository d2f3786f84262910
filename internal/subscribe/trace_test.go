package subscribe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	taskrig "github.com/shardctl/shardctl/test/taskrig"
)

// follower is a tracer of deliveries.
type follower struct{ ended chan string }

func (f follower) Begin(ctx context.Context, _ supervisor.TracedRun) (context.Context, supervisor.Span) {
	return ctx, runSpan{}
}

type runSpan struct{}

func (runSpan) Trace() taskrun.TraceContext      { return taskrun.TraceContext{Parent: "run"} }
func (runSpan) Running()                         {}
func (runSpan) End(taskrun.Result, tasks.Ending) {}

type deliveryKey struct{}

func (f follower) BeginDelivery(
	ctx context.Context, run supervisor.TracedRun, position string, messages int,
) (context.Context, taskrun.DeliverySpan) {
	name := fmt.Sprintf("%s %s %d", run.Key(), position, messages)
	return context.WithValue(ctx, deliveryKey{}, name), deliverySpan{f, name}
}

type deliverySpan struct {
	of   follower
	name string
}

func (s deliverySpan) Trace() taskrun.TraceContext { return taskrun.TraceContext{Parent: s.name} }
func (s deliverySpan) End(err error)               { s.of.ended <- fmt.Sprintf("%s: %v", s.name, err) }

// Each delivery is a span, which its receiver gets in its context and with the message.
func TestDeliveriesAreTraced(t *testing.T) {
	f := follower{make(chan string, 10)}
	env, _ := taskrig.Env(t, func(c *supervisor.Config) { c.Tracer = f })
	failed := false
	w := &worker{work: func(ctx context.Context, d subscribe.Delivery) error {
		if ctx.Value(deliveryKey{}) != d.Trace.Parent {
			return fmt.Errorf("the context is of %v, the message of %s", ctx.Value(deliveryKey{}), d.Trace.Parent)
		}
		if d.ID == "m1" && !failed {
			failed = true
			return errors.New("not now")
		}
		return nil
	}}
	ctx, stop := context.WithCancelCause(t.Context())
	done := make(chan tasks.Ending, 1)
	go func() { done <- subscribe.Runner{Source: newLine(2), Sink: w, InFlight: 1}.Run(ctx, env) }()
	for _, want := range []string{"g/n m0 1: <nil>", "g/n m1 1: not now", "g/n m1 1: <nil>"} {
		if got := taskrig.Wait(t, f.ended, "a delivery"); got != want {
			t.Errorf("a delivery has ended: %s, want %s", got, want)
		}
	}
	stop(elect.ErrReleased)
	taskrig.Wait(t, done, "the end")
}

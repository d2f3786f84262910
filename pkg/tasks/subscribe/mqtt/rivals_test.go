//go:build unix

package mqtt_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/fakehold"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/mqtt"
)

// said is a status, and what is logged. It implements tasks.Status.
type said struct{ troubles, log sourcetest.Lines }

func (*said) Running()            {}
func (*said) Lag(elect.Lag)       {}
func (s *said) Trouble(err error) { s.troubles.Add(fmt.Sprint(err)) }

// nowhere is a sink and its receiver, for subscriptions without messages.
type nowhere struct{}

func (nowhere) Kind() string                           { return "nowhere" }
func (nowhere) Validate(tasks.Use) []decode.FieldError { return nil }
func (nowhere) Print(tasks.Use) any                    { return "" }
func (nowhere) Batch() int                             { return 1 }
func (nowhere) Close(context.Context) error            { return nil }

func (nowhere) Open(context.Context, tasks.Env, subscribe.Limits) (subscribe.Receiver, error) {
	return nowhere{}, nil
}

func (nowhere) Deliver(_ context.Context, all []subscribe.Delivery) []error {
	return make([]error, len(all))
}

// run runs a subscription as a task does, until the test ends.
func run(t *testing.T, name string, source mqtt.Source) *said {
	t.Helper()
	task := tasks.Task{Group: "shop", Name: name}
	s := &said{}
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		subscribe.Runner{Source: source, Sink: nowhere{}, InFlight: 1}.Run(ctx, tasks.Env{
			Identity: task.Identity(), Start: tasks.Start{Token: 7}, T: 20 * time.Second, Grace: time.Second,
			Lease: fakehold.New(task.Key()), Status: s, Environ: func() []string { return nil },
			Log: funcr.New(func(_, args string) { s.log.Add(args) }, funcr.Options{}),
		})
	}()
	t.Cleanup(func() {
		cancel(elect.ErrReleased)
		<-done
	})
	return s
}

// Two tasks with one client ID take the session from each other for ever. Both say so, also while they have it.
func TestTwoTasksWithOneClientID(t *testing.T) {
	broker := testbroker.Shared(t, testbroker.KindMosquitto)
	id := testbroker.Name()
	var both []*said
	for _, name := range []string{"orders", "invoices"} {
		s := source(broker.Addr, testbroker.Name())
		s.ClientID = id
		both = append(both, run(t, name, s))
	}
	t.Cleanup(func() {
		for _, s := range both {
			t.Logf("one says %q, and logs %q", s.troubles.All(), s.log.All())
		}
	})
	sourcetest.Eventually(t, "that both tell what is wrong", func() bool {
		return tells(&both[0].troubles, broker.Addr, id) && tells(&both[1].troubles, broker.Addr, id) &&
			both[0].log.Count("that this task has not made")+both[1].log.Count("that this task has not made") > 0
	})
}

// tells says whether the troubles of a task are told as such that last, with the broker and the session.
func tells(troubles *sourcetest.Lines, addr, id string) bool {
	_, lasting, ok := strings.Cut(strings.Join(troubles.All(), "\n"), "keeps breaking soon after it is opened")
	return ok && !strings.Contains(lasting, "<nil>") &&
		strings.Contains(lasting, "has taken the session \""+id+"\" over") &&
		strings.Contains(lasting, addr) && strings.Contains(lasting, "mqtt.clientID")
}

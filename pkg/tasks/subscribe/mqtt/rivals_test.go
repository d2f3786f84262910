//go:build unix

package mqtt_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/fakehold"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/mqtt"
)

// said is a status, and what is logged. It implements tasks.Status.
type said struct {
	mu       sync.Mutex
	troubles []string
	lines    []string
}

func (*said) Running()      {}
func (*said) Lag(elect.Lag) {}
func (s *said) Trouble(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles = append(s.troubles, fmt.Sprint(err))
}

func (s *said) log(_, args string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, args)
}

// all is what it said, and all that was logged.
func (s *said) all() (troubles, lines string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.troubles, "\n"), strings.Join(s.lines, "\n")
}

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
			Log: funcr.New(s.log, funcr.Options{}),
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
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		first, firstLines := both[0].all()
		second, secondLines := both[1].all()
		switch {
		case tells(first, broker.Addr, id) && tells(second, broker.Addr, id) &&
			strings.Contains(firstLines+secondLines, "that this task has not made"):
			return
		case time.Now().After(deadline):
			t.Fatalf("one says %s\n%s\nthe other says %s\n%s", first, firstLines, second, secondLines)
		}
	}
}

// tells says whether the troubles of a task are told as such that last, with the broker and the session.
func tells(troubles, addr, id string) bool {
	_, lasting, ok := strings.Cut(troubles, "keeps breaking soon after it is opened")
	return ok && !strings.Contains(lasting, "<nil>") && strings.Contains(lasting, "has taken the session \""+id+"\" over") &&
		strings.Contains(lasting, addr) && strings.Contains(lasting, "mqtt.clientID")
}

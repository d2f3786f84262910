package subscribe_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/fakehold"
)

// BenchmarkFlow prints what a message costs between a source and a sink that cost nothing.
func BenchmarkFlow(b *testing.B) {
	for _, inFlight := range []int{1, 64, 1000} {
		b.Run(fmt.Sprintf("inFlight=%d", inFlight), func(b *testing.B) {
			l, w := newLine(b.N), &silent{done: make(chan struct{}), want: b.N}
			task := tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}}
			ctx, cancel := context.WithCancelCause(b.Context())
			env := taskrun.Env{
				Identity: task.Identity, Start: tasks.Start{Token: 7}, Grace: time.Second,
				Lease: fakehold.New(task.Key()), Status: &says{}, Host: taskrun.Host{Environ: os.Environ},
				Log: logr.Discard(),
			}
			r := subscribe.Runner{Source: l, Sink: w, InFlight: inFlight}
			ended := make(chan tasks.Ending)
			b.ResetTimer()
			go func() { ended <- r.Run(ctx, env) }()
			<-w.done
			b.StopTimer()
			cancel(elect.ErrReleased)
			<-ended
		})
	}
}

// silent is a sink that takes all messages at once, and says when it has seen as many as wanted.
type silent struct {
	worker

	want, n int
	done    chan struct{}
}

func (s *silent) Open(context.Context, taskrun.Env, string) (subscribe.Receiver, error) {
	return s, nil
}

func (s *silent) Deliver(_ context.Context, deliveries []subscribe.Delivery) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n += len(deliveries); s.n == s.want {
		close(s.done)
	}
	return make([]error, len(deliveries))
}

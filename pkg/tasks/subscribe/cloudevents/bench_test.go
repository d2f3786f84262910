package cloudevents

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/internal/fakehold"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

type benchHTTP struct{ tasks.Clients }

func (*benchHTTP) Turn(context.Context) (func(), error) { return func() {}, nil }

// BenchmarkDeliver prints what one message costs, with 64 under way.
func BenchmarkDeliver(b *testing.B) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	task := tasks.Task{Group: "g", Name: "n"}
	clients := &benchHTTP{}
	defer clients.Close()
	env := tasks.Env{
		Identity: task.Identity(), Start: tasks.Start{Token: 7}, Instance: "a", Lease: fakehold.New(task.Key()),
		HTTP: clients, Environ: os.Environ, Log: logr.Discard(),
	}
	r, err := Sink{URL: server.URL}.Open(b.Context(), env, subscribe.Limits{InFlight: 64, Source: "kafka:orders"})
	if err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			errs := r.Deliver(b.Context(), []subscribe.Delivery{{Message: subscribe.Message{
				ID: fmt.Sprintf("orders/1/%d", i), Partition: "1", Key: []byte("key"), Body: make([]byte, 200),
			}, Attempt: 1}})
			if errs[0] != nil {
				b.Fatal(errs[0])
			}
		}
	})
}

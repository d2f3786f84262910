package shardctl

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/function"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/fakehold"
)

// A handler gets what was delivered, and what it returns reaches the subscription.
func TestHandlersOfMessages(t *testing.T) {
	var got Message
	bad := errors.New("not an order")
	refuse := func(_ context.Context, m Message, _ tasks.Run) error {
		got = m
		return Rejected(bad)
	}
	options, err := Functions{Messages: map[string]Handler{"order": refuse}}.options()
	if err != nil {
		t.Fatal(err)
	}
	env := taskrun.Env{Lease: fakehold.New(elect.NewKey("g", "n")), Host: taskrun.Host{Callbacks: options.Callbacks}}
	receiver, err := function.Sink("order").Open(t.Context(), env, "")
	if err != nil {
		t.Fatal(err)
	}
	published := time.Unix(1, 0)
	errs := receiver.Deliver(t.Context(), []subscribe.Delivery{{
		Message: subscribe.Message{
			ID: "orders/3/42", Origin: "x1", Partition: "3", Key: []byte("k"), Body: []byte("b"), Type: "text/plain",
			Headers: map[string]string{"h": "1"}, Time: published,
		},
		Attempt: 2,
	}})
	if !reflect.DeepEqual(errs, []error{subscribe.Rejected(bad)}) {
		t.Errorf("the subscription gets %v", errs)
	}
	if got.ID != "orders/3/42@x1" || got.Partition != "3" || string(got.Key) != "k" || string(got.Body) != "b" ||
		got.Type != "text/plain" || got.Headers["h"] != "1" || !got.Published.Equal(published) || got.Attempt != 2 {
		t.Errorf("the handler got %+v", got)
	}
	if err := receiver.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A lister has a name and a function.
func TestListersThatAreNone(t *testing.T) {
	none := func(context.Context) ([]Item, error) { return nil, nil }
	for name, list := range map[string]Lister{"": none, "nil": nil} {
		if _, err := (Functions{Lists: map[string]Lister{name: list}}).options(); err == nil {
			t.Errorf("%q was registered", name)
		}
	}
	if o, err := (Functions{Lists: map[string]Lister{"good": none}}).options(); err != nil || o.Listers["good"] == nil {
		t.Errorf("%v, %v, want the lister", o.Listers, err)
	}
}

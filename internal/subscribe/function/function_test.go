package function

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/runners/callback"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/taskrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, registry *tasks.Registry) subscribe.Receiver {
	t.Helper()
	env, _ := taskrig.Env(t, func(c *supervisor.Config) { c.Registry = registry })
	r, err := Sink("take").Open(t.Context(), env, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func delivery(id string) subscribe.Delivery {
	return subscribe.Delivery{
		Message: subscribe.Message{ID: id, Body: []byte("body of " + id)}, Attempt: 3, Start: tasks.Start{Token: 7},
	}
}

func TestHandlerGetsMessageAndLease(t *testing.T) {
	registry := &tasks.Registry{}
	if err := Handle(registry, "take", func(_ context.Context, d subscribe.Delivery, run tasks.Run) error {
		switch {
		case d.Attempt != 3 || string(d.Body) != "body of "+d.ID || d.Token != 7:
			return fmt.Errorf("got %+v", d)
		case run.Token != 7 || run.Name != "n" || run.Lease.Key() != "g/n" || !run.Lease.Valid():
			return fmt.Errorf("got %+v", run)
		case d.ID == "b":
			return errors.New("no such customer")
		case d.ID == "c":
			panic("out of range")
		case d.ID == "d":
			runtime.Goexit()
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r := open(t, registry)
	errs := r.Deliver(t.Context(), []subscribe.Delivery{delivery("a"), delivery("b"), delivery("c"), delivery("d")})
	for i, want := range []string{"", "no such customer", `callback "take" panicked: out of range`, "runtime.Goexit"} {
		if err := errs[i]; (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("message %d: %v, want %q", i, err, want)
		}
	}
	if err := r.Close(t.Context()); err != nil || r.Batch() != 1 {
		t.Errorf("Close returned %v, batches of %d", err, r.Batch())
	}
}

func TestPlainCallbackIsCalledForEachMessage(t *testing.T) {
	registry := &tasks.Registry{}
	if err := registry.Register("take", func(ctx context.Context, _ tasks.Run) error {
		d, ok := FromContext(ctx)
		if !ok {
			return errors.New("no message")
		}
		return errors.New("got " + d.ID)
	}); err != nil {
		t.Fatal(err)
	}
	r := open(t, registry)
	if err := r.Deliver(t.Context(), []subscribe.Delivery{delivery("a")})[0]; err == nil || err.Error() != "got a" {
		t.Error(err)
	}
}

// Deliver returns when it has to stop, and Close when nothing runs any more.
func TestCloseWaitsForTheHandler(t *testing.T) {
	registry, release, began := &tasks.Registry{}, make(chan struct{}), make(chan struct{})
	if err := Handle(registry, "take", func(context.Context, subscribe.Delivery, tasks.Run) error {
		close(began)
		<-release
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r := open(t, registry)
	ctx, cancel := context.WithCancelCause(t.Context())
	delivered, closed := make(chan []error, 1), make(chan error, 1)
	go func() { delivered <- r.Deliver(ctx, []subscribe.Delivery{delivery("a"), delivery("b")}) }()
	taskrig.Wait(t, began, "the call")
	cancel(elect.ErrLeaseLost)
	for _, err := range taskrig.Wait(t, delivered, "the end of the delivery") {
		if !errors.Is(err, elect.ErrLeaseLost) {
			t.Errorf("%v, want why its context ended", err)
		}
	}
	go func() { closed <- r.Close(ctx) }()
	runtime.Gosched()
	select {
	case err := <-closed:
		t.Errorf("closed while the handler runs: %v", err)
	default:
	}
	close(release)
	if err := taskrig.Wait(t, closed, "the end"); err != nil {
		t.Error(err)
	}
}

func TestHandlerIsNoTask(t *testing.T) {
	registry := &tasks.Registry{}
	handler := func(context.Context, subscribe.Delivery, tasks.Run) error { return nil }
	if err := Handle(registry, "take", handler); err != nil {
		t.Fatal(err)
	}
	env, _ := taskrig.Env(t, func(c *supervisor.Config) { c.Registry = registry })
	if end := callback.Runner("take").Run(t.Context(), env); end.Err == nil ||
		!strings.Contains(end.Err.Error(), "it belongs in deliver") {
		t.Errorf("%+v", end)
	}
	for name, err := range map[string]error{
		"the name is taken": Handle(registry, "take", handler), "its name is empty": Handle(registry, "", handler),
		"it is nil": Handle(registry, "other", nil),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
	if _, err := Sink("other").Open(t.Context(), env, ""); err == nil ||
		!strings.Contains(err.Error(), `callback "other" is not registered`) {
		t.Error(err)
	}
	for sink, want := range map[Sink]string{
		"take": "", "other": "one of those registered in Go: take",
		"": "is empty",
	} {
		wrong := sink.Validate(kind.Use{Callbacks: registry})
		if (want == "") != (len(wrong) == 0) || want != "" && !strings.Contains(wrong[0].Error(), want) {
			t.Errorf("%q: %v, want %q", sink, wrong, want)
		}
	}
}

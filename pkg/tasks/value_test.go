package tasks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

// What a run keeps of its lease is of no use once the next run has read the value: an old goroutine moves nothing back.
func TestValueOfARunIsFencedByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var old Lease
		stale := make(chan error, 1)
		work := func(ctx context.Context, run Run) error {
			value, err := run.Lease.Value(ctx)
			switch {
			case err != nil:
				return err
			case run.Attempt == 1:
				old = run.Lease
				return errors.Join(errors.New("again"), run.Lease.SetValue(ctx, []byte("1")))
			}
			if string(value) != "1" {
				t.Errorf("Value = %q", value)
			}
			refused := old.SetValue(ctx, []byte("of the first run"))
			if value, err = run.Lease.Value(ctx); string(value) != "1" || err != nil {
				t.Errorf("Value = %q, %v", value, err)
			}
			stale <- refused // the test ends, and the lease with it, once this is received
			<-ctx.Done()
			return nil
		}
		s, _ := rig(t, work, func(c *Config) { c.Lease = nodeLease })
		task := callbackTask()
		n := startNode(t, s, &task)
		if ok, err := n.Lock(t.Context(), task.Key(), func(ctx context.Context, l *elect.Lease) error {
			return s.Run(ctx, task, l)
		}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		select {
		case err := <-stale:
			if !errors.Is(err, elect.ErrLeaseLost) {
				t.Errorf("SetValue of the first run: %v", err)
			}
		case <-time.After(time.Hour):
			t.Fatal("the task was not started again")
		}
	})
}

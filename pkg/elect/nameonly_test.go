package elect_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// nameOnly is a store whose notifications carry no documents.
type nameOnly struct{ store.Store }

func (s nameOnly) Watch(ctx context.Context, in driver.Interest) (<-chan driver.Notification, error) {
	whole, err := s.Store.Watch(ctx, in)
	if err != nil {
		return nil, err
	}
	names := make(chan driver.Notification)
	go func() {
		defer close(names)
		for n := range whole {
			n.Doc = nil
			select {
			case names <- n:
			case <-ctx.Done():
				return
			}
		}
	}()
	return names, nil
}

// A session that begins is known by its notification, also where that only names it: a session that leaves just then
// hands keys to it.
func TestNotificationThatOnlyNamesASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := startNode(t, db, "a", func(c *elect.Config) { c.Store = nameOnly{c.Store} })
		time.Sleep(time.Second) // its own start is over
		b := startNode(t, db, "b")
		took := eventually(t, lease, "a knows b", func() bool {
			for _, s := range a.Cluster.View().Sessions {
				if s.Member.Instance == "b" && s.Known {
					return true
				}
			}
			return false
		})
		if most := 150 * time.Millisecond; took > most {
			t.Errorf("known after %v, want %v at most, for opening a session and one look", took, most)
		}
		b.stop()
		a.stop()
	})
}

// A lock that is handed over is read as soon as a notification names it, however short ago the last look at all that
// changed was: each hand-over takes as long as its own writes and reads.
func TestNotificationThatOnlyNamesALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := startNode(t, db, "a")
		b := startNode(t, db, "b", func(c *elect.Config) { c.Store = nameOnly{c.Store} })
		for _, n := range []*node{a, b} {
			if err := n.Track(t.Context(), "g"); err != nil {
				t.Fatal(err)
			}
		}
		started := make(chan time.Time, 1)
		if err := b.TakeReserved(t.Context(), func(elect.Key) elect.Runnable {
			return elect.Go(func(ctx context.Context, _ *elect.Lease) error {
				started <- time.Now()
				<-ctx.Done()
				return nil
			})
		}); err != nil {
			t.Fatal(err)
		}
		eventually(t, lease, "b is open", func() bool { return b.View().Open })
		for _, key := range []elect.Key{"g/1", "g/2", "g/3"} {
			mustLock(t, a, key, func(ctx context.Context, _ *elect.Lease) error { <-ctx.Done(); return nil })
		}
		for _, key := range []elect.Key{"g/1", "g/2", "g/3"} {
			time.Sleep(5 * time.Millisecond)
			released := time.Now()
			if err := a.Release(t.Context(), cluster.HandOver{
				Key: key, Next: b.View().Session, Reason: record.ReasonBalance, Message: "more even",
			}); err != nil {
				t.Fatal(err)
			}
			if took := (<-started).Sub(released); took > 5*time.Millisecond {
				t.Errorf("%s runs after %v", key, took)
			}
		}
		a.stop()
		b.stop()
	})
}

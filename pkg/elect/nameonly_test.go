package elect_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// nameOnly is a store whose notifications carry no documents.
type nameOnly struct{ store.Store }

func (s nameOnly) Watch(ctx context.Context, in store.Interest) (<-chan store.Notification, error) {
	whole, err := s.Store.Watch(ctx, in)
	if err != nil {
		return nil, err
	}
	names := make(chan store.Notification)
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

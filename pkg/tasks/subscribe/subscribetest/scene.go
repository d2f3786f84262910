package subscribetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

const (
	patience = 20 * time.Second // for what should come at once
	soon     = 10 * time.Second // for a return after a context has ended
	moment   = 300 * time.Millisecond
)

// reporter is what checks use of a *testing.T. The suite's own tests put another in its place.
type reporter interface {
	Helper()
	Context() context.Context
	Cleanup(f func())
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// scene is one check on one topic.
type scene struct {
	reporter
	t      *testing.T // for the topic's functions only
	topic  Topic
	id     tasks.Identity
	book   *ledger
	store  *Store
	token  int64        // of the last Open
	number atomic.Int64 // of the last message
}

func newScene(t *testing.T, r reporter, topic Topic) *scene {
	t.Helper()
	return &scene{
		reporter: r, t: t, topic: topic, id: NewIdentity(), book: newLedger(), store: NewStore(nil),
	}
}

// messages makes n messages of the keys in turn.
func (s *scene) messages(n int, keys ...string) []subscribe.Message {
	list := make([]subscribe.Message, n)
	for i := range list {
		key := keys[i%len(keys)]
		list[i] = subscribe.Message{Key: []byte(key), Body: fmt.Appendf(nil, "%s-%03d", key, s.number.Add(1))}
	}
	return list
}

// publish notes messages in the ledger and publishes them.
func (s *scene) publish(messages ...subscribe.Message) {
	s.book.publish(messages...)
	s.topic.Publish(s.t, messages...)
}

// bounded calls f with a context that ends after limit, and fails when f then does not return.
func (s *scene) bounded(what string, limit time.Duration, f func(ctx context.Context)) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), limit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	select {
	case <-done:
	case <-time.After(limit + soon):
		s.Fatalf("%s had not returned %s after its context ended", what, soon)
	}
}

// isContext says whether an error says that a context has ended.
func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// tryOpen opens the source under the next token.
func (s *scene) tryOpen(source subscribe.Source, limit time.Duration) (*client, error) {
	s.Helper()
	s.token++
	c := &client{scene: s, source: source, n: int(s.token)}
	var err error
	s.bounded("Open", limit, func(ctx context.Context) {
		c.sub, err = source.Open(ctx, NewSession(s.t, s.id, s.token, s.store))
	})
	if err != nil {
		return nil, err
	}
	s.Cleanup(c.end)
	return c, nil
}

// open opens a source whose broker is well.
func (s *scene) open() *client {
	s.Helper()
	c, err := s.tryOpen(s.topic.Source(s.t), patience)
	if err != nil {
		s.Fatalf("Open of a topic that exists: %v", err)
	}
	return c
}

// openSoon opens a source after the connection was broken, as runs do: again, until it succeeds.
func (s *scene) openSoon(source subscribe.Source) *client {
	s.Helper()
	for began := time.Now(); ; {
		c, err := s.tryOpen(source, patience)
		if err == nil {
			return c
		}
		if time.Since(began) > patience {
			s.Fatalf("Open still fails %s after the connection was broken, with what connects now working: %v", patience, err)
		}
		s.Logf("Open after the connection was broken: %v", err)
		select {
		case <-s.Context().Done():
			s.Fatalf("the test has ended")
		case <-time.After(moment):
		}
	}
}

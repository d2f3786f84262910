package subscribetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// owners open subscriptions of one task, each under a larger token than the one before.
type owners struct {
	calls

	traffic *traffic
	id      tasks.Identity
	store   *Store
	token   int64 // of the last Open
	// beginnings is how many lines said that no position was kept, and where the subscription begins.
	beginnings atomic.Int64
}

// sessionLog is the test as the log of a session.
type sessionLog struct {
	testing.TB
	beginnings *atomic.Int64
}

func (l sessionLog) Log(args ...any) {
	line := fmt.Sprint(args...)
	if strings.Contains(line, "No position was kept, beginning") && strings.Contains(line, `"position"="`) {
		l.beginnings.Add(1)
	}
	l.TB.Log(line)
}

// tryOpen opens the source under the next token.
func (o *owners) tryOpen(source subscribe.Source, limit time.Duration) (*client, error) {
	o.Helper()
	o.token++
	c := &client{calls: o.calls, traffic: o.traffic, owners: o, source: source, n: int(o.token)}
	var err error
	o.bounded("Open", limit, func(ctx context.Context) {
		c.sub, err = source.Open(ctx, NewSession(sessionLog{o.traffic.t, &o.beginnings}, o.id, o.token, o.store))
	})
	if err != nil {
		return nil, err
	}
	o.Cleanup(c.end)
	return c, nil
}

// open opens a source whose broker is well.
func (o *owners) open() *client {
	o.Helper()
	c, err := o.tryOpen(o.traffic.topic.Source(o.traffic.t), patience)
	if err != nil {
		o.Fatalf("Open of a topic that exists: %v", err)
	}
	return c
}

// openSoon opens a source after the connection was broken, as runs do: again, until it succeeds.
func (o *owners) openSoon(source subscribe.Source) *client {
	o.Helper()
	for began := time.Now(); ; {
		c, err := o.tryOpen(source, patience)
		if err == nil {
			return c
		}
		if time.Since(began) > patience {
			o.Fatalf("Open still fails %s after the connection was broken, with what connects now working: %v",
				patience, err)
		}
		o.Logf("Open after the connection was broken: %v", err)
		select {
		case <-o.Context().Done():
			o.Fatalf("the test has ended")
		case <-time.After(moment):
		}
	}
}

// reopen opens the source of a subscription that was closed in order.
func (o *owners) reopen(source subscribe.Source) *client {
	o.Helper()
	c, err := o.tryOpen(source, patience)
	if err != nil {
		o.Fatalf("Open after Close: %v", err)
	}
	return c
}

// openStored opens the source that keeps its position in the checkpoint.
func (o *owners) openStored() *client {
	o.Helper()
	return o.reopen(o.traffic.topic.InStore(o.traffic.t))
}

// why is the reason of dead letters in the checks.
func (o *owners) why(m subscribe.Message) subscribe.Why {
	source := o.traffic.topic.Source(o.traffic.t)
	return subscribe.Why{
		Identity: o.id, Source: source.Kind() + ":" + source.Topic(), ID: m.ID, Attempts: 8,
		Err: errors.New("the receiver answered 500"),
	}
}

//go:build linux

package topics

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// batches is in how many parts of a period the messages of all topics are sent: one burst would be a queue.
const batches = 4

// load sends a message to each topic once a period, until stop.
type load struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu  sync.Mutex
	err error // the first message that was not taken
}

func (r *rig) load(ctx context.Context, topics []string, period time.Duration) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		ticks := time.NewTicker(period / batches)
		defer ticks.Stop()
		body := make([]byte, messageSize)
		for n := 0; ; n++ {
			for i := n % batches; i < len(topics); i += batches {
				r.client.Produce(ctx, &kgo.Record{Topic: topics[i], Value: body}, l.sent(ctx))
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return l
}

// sent notes a message that was not taken, unless the load has ended.
func (l *load) sent(ctx context.Context) func(*kgo.Record, error) {
	return func(record *kgo.Record, err error) {
		if err == nil || ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err == nil {
			l.err = fmt.Errorf("send to %s: %w", record.Topic, err)
		}
	}
}

// stop ends the load, and says what was not sent.
func (l *load) stop() error {
	l.cancel()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

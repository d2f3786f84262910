package subscribetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest/memsource"
)

// receiving spoils Receive.
func receiving(change func(right receiveFunc) receiveFunc) func(Topic) Topic {
	return func(topic Topic) Topic { return spoiled(topic, &faults{receive: change}) }
}

func faultsOfReceive() []fault {
	return []fault{
		{name: "ignores most", checks: "Most", with: receiving(func(right receiveFunc) receiveFunc {
			return func(ctx context.Context, most int) ([]subscribe.Message, error) { return right(ctx, most+5) }
		})},
		{name: "leaves no partitions out", checks: "Pause", with: func(topic Topic) Topic {
			return spoiled(topic, &faults{unpaused: true})
		}},
		{name: "does not wait", checks: "WaitsAndReturnsWithContext", with: receiving(hurried)},
		{
			name: "no error when the context ends", checks: "WaitsAndReturnsWithContext",
			with: receiving(func(right receiveFunc) receiveFunc {
				return func(ctx context.Context, most int) ([]subscribe.Message, error) {
					messages, _ := right(ctx, most)
					return messages, nil
				}
			}),
		},
		{
			name:   "another error when the context ends",
			checks: "WaitsAndReturnsWithContext InterruptedReceiveLosesNothing",
			with: receiving(func(right receiveFunc) receiveFunc {
				return func(ctx context.Context, most int) ([]subscribe.Message, error) {
					messages, err := right(ctx, most)
					if err != nil {
						err = errFault
					}
					return messages, err
				}
			}),
		},
		{
			name: "ignores the context", checks: "WaitsAndReturnsWithContext CallsWhileBlocked",
			with: receiving(func(right receiveFunc) receiveFunc {
				return func(ctx context.Context, most int) ([]subscribe.Message, error) {
					ctx, cancel := longer(ctx)
					defer cancel()
					return right(ctx, most)
				}
			}),
		},
		{
			name: "loses what an interrupted Receive got", checks: "InterruptedReceiveLosesNothing",
			with: receiving(careless),
		},
		{name: "messages and an error", checks: "Order", with: receiving(func(right receiveFunc) receiveFunc {
			return func(ctx context.Context, most int) ([]subscribe.Message, error) {
				messages, _ := right(ctx, most)
				return messages, errFault
			}
		})},
		{name: "reads no answers while much waits", checks: "Flood", with: heldUp},
		{name: "drops what it has no space for", checks: "Flood", with: func(topic Topic) Topic {
			topic.Flood = func(t *testing.T, messages ...subscribe.Message) {
				t.Helper()
				topic.Publish(t, messages[:len(messages)-1]...)
			}
			return topic
		}},
		{
			name: "waits for ever after a cut", checks: "AgainAfterCut Soak",
			with: receiving(func(right receiveFunc) receiveFunc {
				return func(ctx context.Context, most int) ([]subscribe.Message, error) {
					messages, err := right(ctx, most)
					if err != nil {
						<-ctx.Done()
						err = ctx.Err()
					}
					return messages, err
				}
			}),
		},
	}
}

// longer is a context that ends an hour later.
func longer(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
}

// hurried returns nothing when there is nothing.
func hurried(right receiveFunc) receiveFunc {
	return func(ctx context.Context, most int) ([]subscribe.Message, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		messages, err := right(ctx, most)
		if isContext(err) {
			err = nil
		}
		return messages, err
	}
}

// careless drops what comes when the context has ended.
func careless(right receiveFunc) receiveFunc {
	return func(ctx context.Context, most int) ([]subscribe.Message, error) {
		if ctx.Err() == nil {
			return right(ctx, most)
		}
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Millisecond)
		defer cancel()
		_, _ = right(late, most)
		return nil, ctx.Err()
	}
}

func faultsOfOrder() []fault {
	return []fault{
		{name: "swaps two", checks: "Order Soak", with: receiving(func(right receiveFunc) receiveFunc {
			return func(ctx context.Context, most int) ([]subscribe.Message, error) {
				messages, err := right(ctx, most)
				if len(messages) > 1 {
					messages[0], messages[1] = messages[1], messages[0]
				}
				return messages, err
			}
		})},
		{name: "gives a message twice", checks: "Order Most", with: receiving(func(right receiveFunc) receiveFunc {
			var last []subscribe.Message
			return func(ctx context.Context, most int) ([]subscribe.Message, error) {
				if len(last) > 0 {
					twice := last
					last = nil
					return twice, nil
				}
				messages, err := right(ctx, most)
				last = slices.Clone(messages)
				return messages, err
			}
		})},
		{name: "begins with what is new", checks: "Beginning", with: fromNow},
		{name: "loses the first message on a cut", checks: "AgainAfterCut AgainAfterCrash Soak", with: losesOnCut},
		{
			name:   "redelivers after newer ones",
			checks: "AgainAfterClose AgainAfterCut AgainAfterCrash CloseWhileBlocked", with: newestFirst,
		},
		{
			name: "connects again, and gives again what is in flight", checks: "AgainAfterCut Soak",
			with: func(topic Topic) Topic { return reconnecting(topic, false) },
		},
	}
}

// heldUp answers no calls while more than a few messages wait to be received.
func heldUp(topic Topic) Topic {
	const space = 128
	var waiting atomic.Int64
	publish := topic.Publish
	topic.Publish = func(t *testing.T, messages ...subscribe.Message) {
		t.Helper()
		waiting.Add(int64(len(messages)))
		publish(t, messages...)
	}
	return spoiled(topic, &faults{
		receive: func(right receiveFunc) receiveFunc {
			return func(ctx context.Context, most int) ([]subscribe.Message, error) {
				messages, err := right(ctx, most)
				waiting.Add(-int64(len(messages)))
				return messages, err
			}
		},
		letter: func(right letterFunc) letterFunc {
			return func(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
				if waiting.Load() > space {
					<-ctx.Done()
					return ctx.Err()
				}
				return right(ctx, to, m, why)
			}
		},
	})
}

// fromNow drops what the topic held before the first Open.
func fromNow(topic Topic) Topic {
	var once sync.Once
	return spoiled(topic, &faults{open: func(right openFunc) openFunc {
		return func(ctx context.Context, s subscribe.Session) (sub subscribe.Subscription, err error) {
			if sub, err = right(ctx, s); err != nil {
				return nil, err
			}
			once.Do(func() {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if old, err := sub.Receive(ctx, 100); err == nil {
					_ = sub.Ack(ctx, old)
				}
			})
			return sub, nil
		}
	}})
}

// losesOnCut loses a message with each cut.
func losesOnCut(topic Topic) Topic {
	var mu sync.Mutex
	lost := false
	cut := topic.Cut
	topic.Cut = func(t *testing.T) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		lost = true
		cut(t)
	}
	return spoiled(topic, &faults{receive: func(right receiveFunc) receiveFunc {
		return func(ctx context.Context, most int) ([]subscribe.Message, error) {
			messages, err := right(ctx, most)
			mu.Lock()
			defer mu.Unlock()
			if !lost || len(messages) == 0 {
				return messages, err
			}
			lost = false
			if len(messages) == 1 {
				return right(ctx, most)
			}
			return messages[1:], nil
		}
	}})
}

// newestFirst gives messages that it gave before after those that are new.
func newestFirst(topic Topic) Topic {
	given := map[string]bool{}
	return spoiled(topic, &faults{receive: func(right receiveFunc) receiveFunc {
		return func(ctx context.Context, most int) ([]subscribe.Message, error) {
			messages, err := right(ctx, most)
			slices.SortStableFunc(messages, func(a, b subscribe.Message) int {
				switch {
				case given[a.ID] == given[b.ID]:
					return 0
				case given[a.ID]:
					return 1
				}
				return -1
			})
			for _, m := range messages {
				given[m.ID] = true
			}
			return messages, err
		}
	}})
}

// reconnecting connects again by itself. It gives a message once in a subscription only if it remembers.
func reconnecting(topic Topic, remembers bool) Topic {
	right := topic.Source
	topic.Source = func(t *testing.T) subscribe.Source {
		t.Helper()
		return reconnectingSource{right(t), remembers}
	}
	choose := topic.WhenMissing
	topic.WhenMissing = func(t *testing.T, missing string, inStore bool) subscribe.Source {
		t.Helper()
		return reconnectingSource{choose(t, missing, inStore), remembers}
	}
	return topic
}

type reconnectingSource struct {
	subscribe.Source
	remembers bool
}

func (s reconnectingSource) Open(ctx context.Context, session subscribe.Session) (subscribe.Subscription, error) {
	sub, err := s.Source.Open(ctx, session)
	if err != nil {
		return nil, err
	}
	inner := sub.(*memsource.Subscription)
	return &reconnectingSub{Subscription: inner, source: s, session: session, given: map[string]bool{}}, nil
}

type reconnectingSub struct {
	*memsource.Subscription
	source  reconnectingSource
	session subscribe.Session
	given   map[string]bool
}

func (s *reconnectingSub) reconnect(ctx context.Context) error {
	sub, err := s.source.Source.Open(ctx, s.session)
	if err == nil {
		s.Subscription = sub.(*memsource.Subscription)
	}
	return err
}

func (s *reconnectingSub) Receive(ctx context.Context, most int) ([]subscribe.Message, error) {
	for {
		messages, err := s.Subscription.Receive(ctx, most)
		if err != nil {
			if isContext(err) {
				return nil, err
			}
			if err := s.reconnect(ctx); err != nil {
				return nil, err
			}
			continue
		}
		messages = slices.DeleteFunc(messages,
			func(m subscribe.Message) bool { return s.source.remembers && s.given[m.ID] })
		for _, m := range messages {
			s.given[m.ID] = true
		}
		if len(messages) > 0 {
			return messages, nil
		}
	}
}

func (s *reconnectingSub) Ack(ctx context.Context, messages []subscribe.Message) error {
	err := s.Subscription.Ack(ctx, messages)
	if err != nil && !isContext(err) && s.reconnect(ctx) == nil {
		err = s.Subscription.Ack(ctx, messages)
	}
	return err
}

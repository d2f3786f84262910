package subscribetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/pkg/elect"
)

// acking spoils Ack.
func acking(change func(right ackFunc) ackFunc) func(Topic) Topic {
	return func(topic Topic) Topic { return spoiled(topic, &faults{ack: change}) }
}

func faultsOfAck() []fault {
	return []fault{
		{
			name:   "acknowledges nothing",
			checks: "AckIsDurable AckInPieces AgainAfterClose Lag Soak StoreKeepsPosition",
			with: acking(func(ackFunc) ackFunc {
				return func(context.Context, []subscribe.Message) error { return nil }
			}),
		},
		{
			name: "acknowledges only the first", single: true, checks: "AckInPieces AckInAnotherOrder",
			with: acking(func(right ackFunc) ackFunc {
				return func(ctx context.Context, messages []subscribe.Message) error { return right(ctx, messages[:1]) }
			}),
		},
		{
			name: "acknowledges what it gave", checks: "AckIsDurable AckInPieces AgainAfterClose AgainAfterCrash",
			with: acksGiven,
		},
		{name: "is cumulative and says not", checks: "AckInAnotherOrder", with: func(topic Topic) Topic {
			return spoiled(topic, &faults{cumulative: true})
		}},
		{
			name: "does not wait for the confirmation", checks: "AckAfterCut CallsWhileBlocked",
			with: acking(func(right ackFunc) ackFunc {
				return func(ctx context.Context, messages []subscribe.Message) error {
					_ = right(ctx, messages)
					return nil
				}
			}),
		},
		{
			name: "ignores the context", checks: "AckWithEndedContext CallsWhileBlocked",
			with: acking(func(right ackFunc) ackFunc {
				return func(ctx context.Context, messages []subscribe.Message) error {
					ctx, cancel := longer(ctx)
					defer cancel()
					return right(ctx, messages)
				}
			}),
		},
		{
			name: "looks at the context too late", checks: "AckWithEndedContext",
			with: acking(func(right ackFunc) ackFunc {
				return func(ctx context.Context, messages []subscribe.Message) error {
					lasting, cancel := longer(ctx)
					defer cancel()
					return errors.Join(right(lasting, messages), ctx.Err())
				}
			}),
		},
		{name: "keeps no attempts", checks: "AttemptsAreKept StoreKeepsAttempts", with: keepingAttempts(
			func(ackFunc) ackFunc { return func(context.Context, []subscribe.Message) error { return nil } },
		)},
		{name: "forgets no attempts", checks: "AttemptsAreKept", with: keepingAttempts(func(right ackFunc) ackFunc {
			return func(ctx context.Context, messages []subscribe.Message) error {
				return right(ctx, slices.DeleteFunc(messages,
					func(m subscribe.Message) bool { return m.Delivered == 0 }))
			}
		})},
		{name: "does not compare tokens", checks: "StaleOwner", with: func(topic Topic) Topic {
			topic.Fenced = true
			return topic
		}},
	}
}

// keepingAttempts spoils KeepDelivered.
func keepingAttempts(change func(right ackFunc) ackFunc) func(Topic) Topic {
	return func(topic Topic) Topic { return spoiled(topic, &faults{keep: change}) }
}

// acksGiven acknowledges also what it has given later.
func acksGiven(topic Topic) Topic {
	var mu sync.Mutex
	var given []subscribe.Message
	return spoiled(topic, &faults{
		receive: func(right receiveFunc) receiveFunc {
			return func(ctx context.Context, most int) ([]subscribe.Message, error) {
				messages, err := right(ctx, most)
				mu.Lock()
				defer mu.Unlock()
				given = append(given, messages...)
				return messages, err
			}
		},
		ack: func(right ackFunc) ackFunc {
			return func(ctx context.Context, _ []subscribe.Message) error {
				mu.Lock()
				defer mu.Unlock()
				return right(ctx, slices.Clone(given))
			}
		},
	})
}

func faultsOfCalls() []fault {
	opening := func(change func(right openFunc) openFunc) func(Topic) Topic {
		return func(topic Topic) Topic { return spoiled(topic, &faults{open: change}) }
	}
	lagOf := func(change func(right subscribe.Lag) subscribe.Lag) func(Topic) Topic {
		return func(topic Topic) Topic {
			return spoiled(topic, &faults{lag: func(right lagFunc) lagFunc {
				return func(ctx context.Context) (subscribe.Lag, error) {
					lag, err := right(ctx)
					return change(lag), err
				}
			}})
		}
	}
	return []fault{
		{name: "Open ignores its context", checks: "OpenWhileBlocked", with: opening(func(right openFunc) openFunc {
			return func(ctx context.Context, s subscribe.Session) (subscribe.Subscription, error) {
				ctx, cancel := longer(ctx)
				defer cancel()
				return right(ctx, s)
			}
		})},
		{name: "Open's error says little", checks: "OpenWhileBlocked", with: opening(func(right openFunc) openFunc {
			return func(ctx context.Context, s subscribe.Session) (subscribe.Subscription, error) {
				sub, err := right(ctx, s)
				if err != nil {
					err = errFault
				}
				return sub, err
			}
		})},
		{name: "Close waits for the broker", checks: "CloseWhileBlocked CallsWhileBlocked", with: slowClose},
		{name: "Close waits for a long poll", checks: "ClosesAtOnce", with: func(topic Topic) Topic {
			return spoiled(topic, &faults{close: func(right closeFunc, _ subscribe.Subscription) closeFunc {
				return func(ctx context.Context) error {
					time.Sleep(quick + time.Second)
					return right(ctx)
				}
			}})
		}},
		{
			name: "lag is always 0", checks: "Lag",
			with: lagOf(func(subscribe.Lag) subscribe.Lag { return subscribe.Lag{} }),
		},
		{name: "lag never falls", checks: "Lag", with: lagOf(func(lag subscribe.Lag) subscribe.Lag {
			lag.Messages = max(lag.Messages, 1)
			return lag
		})},
		{name: "lag without messages is old", checks: "Lag", with: lagOf(func(lag subscribe.Lag) subscribe.Lag {
			lag.Seconds = 5
			return lag
		})},
		{
			name: "lag is not known", checks: "Lag",
			with: lagOf(func(subscribe.Lag) subscribe.Lag { return subscribe.Unknown }),
		},
	}
}

// slowClose asks the broker before it closes, whatever its context says.
func slowClose(topic Topic) Topic {
	return spoiled(topic, &faults{close: func(right closeFunc, sub subscribe.Subscription) closeFunc {
		return func(ctx context.Context) error {
			asking, cancel := longer(ctx)
			defer cancel()
			_, _ = sub.(subscribe.Lagging).Lag(asking)
			return right(ctx)
		}
	}})
}

func faultsOfStore() []fault {
	opened := func(change func(*subscribe.Session)) func(Topic) Topic {
		return func(topic Topic) Topic {
			return spoiled(topic, &faults{open: func(right openFunc) openFunc {
				return func(ctx context.Context, s subscribe.Session) (subscribe.Subscription, error) {
					change(&s)
					return right(ctx, s)
				}
			}})
		}
	}
	keeping := func(change func(right subscribe.Checkpoint) subscribe.Checkpoint) func(Topic) Topic {
		return opened(func(s *subscribe.Session) { s.Checkpoint = change(s.Checkpoint) })
	}
	return []fault{
		{
			name: "keeps the position in the broker", checks: "StoreSaysWhereToBegin StoreRefusesStaleOwner",
			with: func(topic Topic) Topic { topic.InStore = topic.Source; return topic },
		},
		{
			name: "keeps the position later", checks: "StoreKeepsPosition",
			with: keeping(func(right subscribe.Checkpoint) subscribe.Checkpoint { return &late{Checkpoint: right} }),
		},
		{
			name: "begins without a line", checks: "BeginningIsLogged StoreBeginningIsLogged",
			with: opened(func(s *subscribe.Session) { s.Log = logr.Discard() }),
		},
		{
			name: "logs each beginning", checks: "BeginningIsLogged StoreBeginningIsLogged",
			with: opened(func(s *subscribe.Session) { subscribe.LogBeginning(s.Log, "orders/0/0") }),
		},
		{
			name: "stale owner is not refused", checks: "StoreRefusesStaleOwner",
			with: keeping(func(right subscribe.Checkpoint) subscribe.Checkpoint { return deaf{right} }),
		},
		{
			name: "remembers no position", checks: "MadeAgain PositionGone StoreMadeAgain",
			with: keeping(func(subscribe.Checkpoint) subscribe.Checkpoint { return forgetting{} }),
		},
		{
			name: "goes on by itself", checks: "MadeAgain PositionGone StoreMadeAgain",
			with: func(topic Topic) Topic {
				choose := topic.WhenMissing
				topic.WhenMissing = func(t *testing.T, _ string, inStore bool) subscribe.Source {
					t.Helper()
					return choose(t, subscribe.Earliest, inStore)
				}
				return topic
			},
		},
		{
			name: "does not read first", checks: "StoreKeepsPosition",
			with: keeping(func(right subscribe.Checkpoint) subscribe.Checkpoint { return unread{right} }),
		},
	}
}

// late keeps a value when the next one comes.
type late struct {
	subscribe.Checkpoint
	pending []byte
}

func (l *late) SetValue(ctx context.Context, value []byte) error {
	before := l.pending
	if l.pending = value; before == nil {
		return nil
	}
	return l.Checkpoint.SetValue(ctx, before)
}

// deaf goes on after the lease was lost.
type deaf struct{ subscribe.Checkpoint }

func (d deaf) SetValue(ctx context.Context, value []byte) error {
	if err := d.Checkpoint.SetValue(ctx, value); !errors.Is(err, elect.ErrLeaseLost) {
		return err
	}
	return nil
}

// forgetting keeps nothing.
type forgetting struct{}

func (forgetting) Value(context.Context) ([]byte, error)  { return nil, nil }
func (forgetting) SetValue(context.Context, []byte) error { return nil }

// unread does not ask for the value.
type unread struct{ subscribe.Checkpoint }

func (unread) Value(context.Context) ([]byte, error) { return nil, nil }

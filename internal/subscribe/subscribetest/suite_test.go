package subscribetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest/memsource"
)

// memTopic is a topic with three partitions of a broker in memory.
func memTopic(single bool) func(t *testing.T) Topic {
	return func(*testing.T) Topic {
		broker := memsource.New()
		broker.Create("orders", 3)
		broker.Create("orders-dead", 1)
		source := memsource.Source{Broker: broker, Name: "orders", Consumer: "billing", Single: single}
		topic := Topic{
			Source: func(*testing.T) subscribe.Source { return source },
			Publish: func(t *testing.T, messages ...subscribe.Message) {
				t.Helper()
				if err := broker.Publish("orders", messages...); err != nil {
					t.Error(err)
				}
			},
			Letters: "orders-dead",
			ReadLetters: func(t *testing.T, n int) []subscribe.Message {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				letters, err := broker.Wait(ctx, "orders-dead", n)
				if err != nil {
					t.Log(err) // the check says so
				}
				return letters
			},
			Cut:     func(*testing.T) { broker.Cut() },
			Block:   func(*testing.T) { broker.Block() },
			Unblock: func(*testing.T) { broker.Unblock() },
		}
		topic.WhenMissing = func(_ *testing.T, missing string, inStore bool) subscribe.Source {
			chosen := source
			if chosen.Lost = missing; inStore {
				chosen.Offsets = subscribe.Store
			}
			return chosen
		}
		topic.MakeAgain = func(*testing.T) { broker.MakeAgain("orders") }
		topic.DropPosition = func(*testing.T) { broker.Drop("orders", "billing") }
		if !single {
			stored := source
			stored.Offsets = subscribe.Store
			topic.InStore = func(*testing.T) subscribe.Source { return stored }
		}
		return topic
	}
}

// TestMemory is the suite as sources run it.
func TestMemory(t *testing.T) { Run(t, memTopic(false)) }

// TestGreen shows that what turns red for a fault is green without, for each way to be right.
func TestGreen(t *testing.T) {
	const stored = "StoreKeepsPosition StoreBeginningIsLogged StoreSaysWhereToBegin StoreRefusesStaleOwner " +
		"StoreMadeAgain StoreKeepsAttempts"
	for _, right := range []struct {
		name    string
		skipped string // checks
		single  bool
		with    func(topic Topic) Topic
	}{
		{"cumulative", "AckInAnotherOrder StaleOwner", false, withoutFaults},
		{"single", "StaleOwner " + stored, true, withoutFaults},
		{"compares tokens", "AckInAnotherOrder PositionGone", false, func(topic Topic) Topic {
			topic.Source, topic.Fenced, topic.DropPosition = topic.InStore, true, nil
			choose := topic.WhenMissing
			topic.WhenMissing = func(t *testing.T, missing string, _ bool) subscribe.Source {
				t.Helper()
				return choose(t, missing, true)
			}
			return topic
		}},
		{"connects again by itself", "AckInAnotherOrder StaleOwner", false, func(topic Topic) Topic {
			return reconnecting(topic, true)
		}},
		{"connects again by itself, single", "StaleOwner " + stored, true, func(topic Topic) Topic {
			return reconnecting(topic, true)
		}},
		{
			"forgets", "Beginning BeginningIsLogged AckIsDurable AckInPieces AckInAnotherOrder AckWithEndedContext " +
				"AgainAfterClose AgainAfterCut AckAfterCut AgainAfterCrash AttemptsAreKept StaleOwner " +
				"MadeAgain PositionGone DeadLetterAcknowledgesNothing Lag CloseWhileBlocked Soak " + stored, false, forgetful,
		},
	} {
		for _, c := range checks() {
			t.Run(right.name+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := record(t, c, right.with(memTopic(right.single)(t)))
					for _, message := range r.failed {
						t.Error(message)
					}
					expected := slices.Contains(strings.Fields(right.skipped), c.name)
					if got := r.skipped != ""; got != expected {
						t.Errorf("the check is skipped: %v (%s), want %v", got, r.skipped, expected)
					}
				})
			})
		}
	}
}

func withoutFaults(topic Topic) Topic { return spoiled(topic, &faults{}) }

// forgetful is a broker that forgets what it has given.
func forgetful(topic Topic) Topic {
	topic.Traits, topic.InStore = Traits{Forgets: true, FromNow: true, NoLag: true}, nil
	return spoiled(topic, &faults{
		ack: func(ackFunc) ackFunc {
			return func(context.Context, []subscribe.Message) error { return nil }
		},
	})
}

// recorder is a test that may fail.
type recorder struct {
	t        *testing.T
	mu       sync.Mutex
	cleanups []func()
	failed   []string
	skipped  string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.t.Context() }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Logf(format string, args ...any) { r.t.Logf(format, args...) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.mu.Lock()
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.mu.Lock()
	r.skipped = fmt.Sprintf(format, args...)
	r.mu.Unlock()
	runtime.Goexit()
}

// record runs a check as a test that may fail.
func record(t *testing.T, c check, topic Topic) *recorder {
	t.Helper()
	r := &recorder{t: t}
	apart(func() { c.on(t, r, topic) })
	slices.Reverse(r.cleanups)
	for _, f := range r.cleanups {
		apart(f)
	}
	return r
}

// apart runs f, which may end its goroutine.
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

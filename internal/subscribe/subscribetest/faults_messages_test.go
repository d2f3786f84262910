package subscribetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// changed spoils each message that is received.
func changed(change func(m *subscribe.Message)) func(topic Topic) Topic {
	return func(topic Topic) Topic {
		return spoiled(topic, &faults{receive: func(right receiveFunc) receiveFunc {
			return func(ctx context.Context, most int) ([]subscribe.Message, error) {
				messages, err := right(ctx, most)
				for i := range messages {
					change(&messages[i])
				}
				return messages, err
			}
		}})
	}
}

func faultsOfMessages() []fault {
	received := 0
	return []fault{
		{name: "no key", checks: "Content", with: changed(func(m *subscribe.Message) { m.Key = nil })},
		{name: "no type", checks: "Content", with: changed(func(m *subscribe.Message) { m.Type = "" })},
		{name: "no headers", checks: "Content", with: changed(func(m *subscribe.Message) { m.Headers = nil })},
		{
			name: "type also in the headers", checks: "Content",
			with: changed(func(m *subscribe.Message) { m.Headers = map[string]string{"Content-Type": m.Type} }),
		},
		{
			name: "body as text", checks: "Content",
			with: changed(func(m *subscribe.Message) { m.Body = bytes.ToValidUTF8(m.Body, []byte("?")) }),
		},
		{
			name: "key as text", checks: "Content",
			with: changed(func(m *subscribe.Message) { m.Key = bytes.ToValidUTF8(m.Key, []byte("?")) }),
		},
		{
			name: "body cut off", checks: "Content",
			with: changed(func(m *subscribe.Message) { m.Body = m.Body[:min(len(m.Body), 128<<10)] }),
		},
		{
			name: "time in seconds read as milliseconds", checks: "Content",
			with: changed(func(m *subscribe.Message) { m.Time = time.UnixMilli(m.Time.Unix()) }),
		},
		{name: "always again", checks: "Content", with: changed(func(m *subscribe.Message) { m.Again = true })},
		{
			name: "no origin", checks: "MadeAgain StoreMadeAgain",
			with: changed(func(m *subscribe.Message) { m.Origin = "" }),
		},
		{name: "no ID", checks: "Order", with: changed(func(m *subscribe.Message) { m.ID = "" })},
		{name: "one ID for all", checks: "Order", with: changed(func(m *subscribe.Message) { m.ID = "1" })},
		{
			name: "another ID each time", checks: "AgainAfterClose Soak",
			with: changed(func(m *subscribe.Message) { received++; m.ID = fmt.Sprint(received) }),
		},
		{
			name: "partitions without names", checks: "Order",
			with: changed(func(m *subscribe.Message) { m.Partition = "" }),
		},
		{
			name: "another partition each time", checks: "Order",
			with: changed(func(m *subscribe.Message) { m.Partition = m.ID }),
		},
		{
			name: "values differ", checks: "Value",
			with: func(topic Topic) Topic {
				right := topic.Source
				topic.Source = func(t *testing.T) subscribe.Source {
					t.Helper()
					return faultySource{right(t), &faults{open: same}}
				}
				return topic
			},
		},
		{
			name: "a topic without Cut", checks: "Value",
			with: func(topic Topic) Topic { topic.Cut = nil; return topic },
		},
	}
}

func same(right openFunc) openFunc { return right }

var errFault = errors.New("a fault")

func faultsOfLetters() []fault {
	letters := func(change func(right letterFunc) letterFunc) func(Topic) Topic {
		return func(topic Topic) Topic { return spoiled(topic, &faults{letter: change}) }
	}
	altered := func(change func(m *subscribe.Message, why *subscribe.Why)) func(Topic) Topic {
		return letters(func(right letterFunc) letterFunc {
			return func(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
				change(&m, &why)
				return right(ctx, to, m, why)
			}
		})
	}
	return []fault{
		{
			name: "dead letter without a reason", checks: "DeadLetter",
			with: altered(func(_ *subscribe.Message, why *subscribe.Why) { why.Err = errFault }),
		},
		{
			name: "dead letter without key", checks: "DeadLetter",
			with: altered(func(m *subscribe.Message, _ *subscribe.Why) { m.Key = nil }),
		},
		{
			name: "dead letter without headers", checks: "DeadLetter",
			with: altered(func(m *subscribe.Message, _ *subscribe.Why) { m.Headers = nil }),
		},
		{
			name: "dead letter as text", checks: "DeadLetter",
			with: altered(func(m *subscribe.Message, _ *subscribe.Why) {
				m.Body = []byte(strings.ToValidUTF8(string(m.Body), "?"))
			}),
		},
		{
			name: "dead letter that is not published", checks: "DeadLetter CallsWhileBlocked",
			with: letters(func(letterFunc) letterFunc {
				return func(context.Context, string, subscribe.Message, subscribe.Why) error { return nil }
			}),
		},
		{name: "dead letter that acknowledges", checks: "DeadLetterAcknowledgesNothing", with: ackingLetters},
	}
}

// ackingLetters acknowledges with each dead letter.
func ackingLetters(topic Topic) Topic {
	var ack ackFunc
	return spoiled(topic, &faults{
		ack: func(right ackFunc) ackFunc { ack = right; return right },
		letter: func(right letterFunc) letterFunc {
			return func(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
				return errors.Join(right(ctx, to, m, why), ack(ctx, []subscribe.Message{m}))
			}
		},
	})
}

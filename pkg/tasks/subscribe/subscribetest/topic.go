// Package subscribetest is what every source of messages must do, as tests of real brokers.
package subscribetest

import (
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// Topic is a fresh, empty topic (queue, stream, subject) of a broker, and what tests do to it. Every function fails the
// test on an error.
type Topic struct {
	// Source subscribes to it from its beginning, under one consumer name: each Source takes up where the last was left.
	Source func(t *testing.T) subscribe.Source
	// InStore is Source with the position kept in the checkpoint; nil where the source has no such thing.
	InStore func(t *testing.T) subscribe.Source
	// Publish publishes messages by their Key, Body, Type and Headers, and returns once the broker has them.
	Publish func(t *testing.T, messages ...subscribe.Message)
	// Letters is another topic, for dead letters, and ReadLetters waits for so many of its messages.
	Letters     string
	ReadLetters func(t *testing.T, n int) []subscribe.Message
	// Cut breaks every connection that subscriptions have to the broker. What connects later works. Use a
	// [Cuttable] link between them.
	Cut func(t *testing.T)
	Traits
}

// Traits are how sources differ.
type Traits struct {
	Forgets   bool // a message that nobody is subscribed for is gone: plain subjects of NATS
	NoKeys    bool // the broker's messages have no key
	NoHeaders bool
	NoLag     bool
}

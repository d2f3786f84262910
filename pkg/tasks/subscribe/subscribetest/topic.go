package subscribetest

import (
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// Topic is a fresh, empty topic (queue, stream, subject) of a broker, and what tests do to it. Every function fails the
// test on an error. All but InStore and what the traits rule out are required.
type Topic struct {
	// Source subscribes to it from its beginning, under one consumer name: each Source takes up where the last was
	// left. Its values are equal.
	Source func(t *testing.T) subscribe.Source
	// InStore is Source with the position kept in the checkpoint; nil where the source has no such thing.
	InStore func(t *testing.T) subscribe.Source
	// Publish publishes messages by their Key, Body, Type and Headers, in their order, and returns once the broker has
	// them. Messages of one key come to one partition. It may be called by another goroutine while the test goes on.
	Publish func(t *testing.T, messages ...subscribe.Message)
	// Letters is another topic, for dead letters, and ReadLetters waits for so many of its messages.
	Letters     string
	ReadLetters func(t *testing.T, n int) []subscribe.Message
	// Cut breaks every connection that subscriptions have to the broker. What connects later works. Use a link, such as
	// a TCP proxy, between them. Publish and ReadLetters do not use the link.
	Cut func(t *testing.T)
	// Block makes the link carry nothing, on old and new connections, as a network does that drops packets. Unblock
	// ends that. When the test ends while it is blocked, the topic's clean-up unblocks it.
	Block, Unblock func(t *testing.T)
	Traits
}

// Traits are how sources differ. Each rules out checks, which the suite then reports as skipped.
type Traits struct {
	Forgets   bool // a message that no one is subscribed for is gone: plain subjects of NATS
	FromNow   bool // what was published before the first Open does not come: a session of MQTT begins with it
	IsQueue   bool // the broker removes what is acknowledged, and no position is kept
	NoKeys    bool // the broker's messages have no key
	NoHeaders bool // neither headers nor a media type
	NoLag     bool
	// AcksInStore: Source itself keeps its position in the checkpoint, so that Ack needs no broker. InStore is Source
	// then.
	AcksInStore bool
	// Fenced adds a check: once a newer token has opened the subscription, Ack of an older one fails.
	Fenced bool
}

// missing are the required functions that are nil.
func (t Topic) missing() []string {
	var names []string
	for _, f := range []struct {
		name string
		nil  bool
	}{
		{"Source", t.Source == nil},
		{"Publish", t.Publish == nil},
		{"Letters", t.Letters == ""},
		{"ReadLetters", t.ReadLetters == nil},
		{"Cut", t.Cut == nil},
		{"Block", t.Block == nil},
		{"Unblock", t.Unblock == nil},
	} {
		if f.nil {
			names = append(names, f.name)
		}
	}
	return names
}

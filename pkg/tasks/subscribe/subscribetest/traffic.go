package subscribetest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// traffic is what is published to one topic, and the ledger that judges what comes. Its methods may be called
// concurrently.
type traffic struct {
	t      *testing.T // for the topic's functions only
	topic  Topic
	book   *ledger
	number atomic.Int64 // of the last message
}

// messages makes n messages of the keys in turn.
func (t *traffic) messages(n int, keys ...string) []subscribe.Message {
	list := make([]subscribe.Message, n)
	for i := range list {
		key := keys[i%len(keys)]
		list[i] = subscribe.Message{Key: []byte(key), Body: fmt.Appendf(nil, "%s-%03d", key, t.number.Add(1))}
	}
	return list
}

// publish notes messages in the ledger and publishes them.
func (t *traffic) publish(messages ...subscribe.Message) {
	t.book.publish(messages...)
	t.topic.Publish(t.t, messages...)
}

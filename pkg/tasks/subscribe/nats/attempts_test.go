package nats_test

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// delivered is how often messages were delivered before.
func delivered(messages []subscribe.Message) (counts []int) {
	for _, m := range messages {
		counts = append(counts, m.Delivered)
	}
	return counts
}

// Attempts are in the metadata of the consumer, and go on to that of the next owner. What cannot be read is nothing.
func TestAttemptsInTheMetadata(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{})
	r.add("a", "1", "2", "3")
	owner := r.open(1)
	got := owner.Expect("1 2 3")
	owner.Keep(4, got[0])
	owner.Ack(got[0])
	owner.Keep(2, got[1])
	owner.Close()
	owner = r.open(2)
	if counts := delivered(owner.Expect("2 3")); !slices.Equal(counts, []int{2, 0}) {
		t.Errorf("delivered %v times before", counts)
	}
	consumer, err := r.js.Consumer(r.within(), r.name, r.consumers()[0])
	if err != nil {
		t.Fatal(err)
	}
	config := consumer.CachedInfo().Config
	if kept := config.Metadata["shardctl-attempts"]; kept != `{"2":2}` {
		t.Errorf("kept are %s", kept)
	}
	config.Metadata["shardctl-attempts"] = `{"2":"2"`
	if _, err := r.js.UpdateConsumer(r.within(), r.name, config); err != nil {
		t.Fatal(err)
	}
	owner.Close()
	if counts := delivered(r.open(3).Expect("2 3")); !slices.Equal(counts, []int{0, 0}) {
		t.Errorf("delivered %v times before", counts)
	}
}

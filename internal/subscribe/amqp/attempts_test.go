//go:build unix

package amqp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/amqp"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/test/suites"
)

// delivered is how often messages were delivered before.
func delivered(messages []subscribe.Message) (counts []int) {
	for _, m := range messages {
		counts = append(counts, m.Delivered)
	}
	return counts
}

// A quorum queue counts the owners that had a message, and a classic one nothing.
func TestAttemptsThatTheQueueCounts(t *testing.T) {
	suites.NeedWhole(t, suites.Brokers, "a real broker")
	r := newRig(t)
	for kind, each := range map[string]int{"quorum": 1, "classic": 0} {
		queue := r.declare(kind)
		publishPlain(t, r.admin, queue)
		task := subscribetest.NewTask(t)
		for n := range 4 {
			owner := task.Open(r.source(queue), int64(n+1))
			if m := owner.Take(1)[0]; m.Delivered != n*each {
				t.Errorf("%s queue, owner %d: delivered %d times before", kind, n+1, m.Delivered)
			}
			owner.Close()
		}
		if value, sets := task.Store.Held(); sets > 0 {
			t.Errorf("%s queue: the checkpoint is %s", kind, value)
		}
	}
}

// An owner that fails several times keeps that in the checkpoint. Of a message without an ID nothing can be kept.
func TestAttemptsInTheCheckpointOfAQueue(t *testing.T) {
	r := newRig(t)
	queue := r.declare("quorum")
	r.bodies(queue, "a", "b")
	publishPlain(t, r.admin, queue)
	task := subscribetest.NewTask(t)
	owner := task.Open(r.source(queue), 1)
	got := owner.Expect("a b plain")
	owner.Keep(5, got...)
	value, _ := task.Store.Held()
	if n := strings.Count(string(value), ":5"); n != 2 {
		t.Errorf("the checkpoint is %s", value)
	}
	owner.Ack(got[0])
	owner.Close()
	owner = task.Open(r.source(queue), 2)
	got = owner.Expect("b plain")
	if counts := delivered(got); !slices.Equal(counts, []int{5, 1}) {
		t.Errorf("delivered %v times before", counts)
	}
	owner.Ack(got...)
	owner.Close()
	stream := r.declare("stream")
	r.bodies(stream, "c")
	task.Open(r.stream(stream, amqp.Stream{}), 3).Expect("c") // what is kept of the queue is not a position
}

// Attempts at messages of a stream are kept with its position, also where it has none yet.
func TestAttemptsInAStream(t *testing.T) {
	r := newRig(t)
	queue := r.declare("stream")
	r.bodies(queue, "a", "b", "c")
	task := subscribetest.NewTask(t)
	source := r.stream(queue, amqp.Stream{Start: "2020-01-01T00:00:00Z"})
	owner := task.Open(source, 1)
	owner.Keep(3, owner.Expect("a b c")[1])
	owner.Close()
	owner = task.Open(source, 2)
	got := owner.Expect("a b c")
	if counts := delivered(got); !slices.Equal(counts, []int{0, 3, 0}) {
		t.Errorf("delivered %v times before", counts)
	}
	owner.Ack(got[:2]...)
	if value, _ := task.Store.Held(); strings.Contains(string(value), "attempts") {
		t.Errorf("the checkpoint is %s", value)
	}
}

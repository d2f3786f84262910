//go:build unix

package amqp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/amqp"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
)

// Where a stream's reading begins, and that it goes on from the position afterwards.
func TestStreamStart(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct{ start, want string }{
		{"earliest", "a b c new"},
		{"1", "b c new"},
		{"latest", "new"},
		{time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), "a b c new"},
		{time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "new"},
	} {
		t.Run(c.start, func(t *testing.T) {
			stream := r.declare("stream")
			r.bodies(stream, "a", "b", "c")
			source, task := r.stream(stream, amqp.Stream{Start: c.start}), subscribetest.NewTask(t)
			first := task.Open(source, 1)
			if c.start == "latest" { // it is kept: nothing is missed between two runs
				first.Close()
				r.bodies(stream, "new")
				first = task.Open(source, 2)
			} else {
				r.bodies(stream, "new")
			}
			first.Ack(first.Expect(c.want)...)
			first.Close()
			r.bodies(stream, "next")
			next := task.Open(source, 3).Expect("next")
			if next[0].ID != stream+"/4" {
				t.Errorf("the ID is %q, want %s/4", next[0].ID, stream)
			}
		})
	}
}

// A position that the stream no longer has is logged, and what follows is chosen.
func TestStreamMissing(t *testing.T) {
	r := newRig(t)
	cases := map[string]func(t *testing.T) (stream string, position int){
		"removed": func(t *testing.T) (string, int) {
			t.Helper()
			stream := r.declare("stream", "x-max-length-bytes", int64(2000), "x-stream-max-segment-size-bytes",
				int64(1000))
			return stream, 1
		},
		"made again": func(t *testing.T) (string, int) {
			t.Helper()
			return r.declare("stream"), 1000
		},
	}
	for name, prepare := range cases {
		for _, missing := range []string{"stop", "earliest", "latest"} {
			t.Run(name+" "+missing, func(t *testing.T) {
				stream, position := prepare(t)
				for i := range 20 { // each a chunk of its own, of which a few make a segment
					r.bodies(stream, fmt.Sprintf("%02d%s", i, strings.Repeat(".", 500)))
				}
				source, task := r.stream(stream, amqp.Stream{Missing: missing}), taskAt(t, stream, position)
				if missing == "stop" {
					subscribetest.WantStop(t, task.Refused(source, 1), stream, fmt.Sprintf("offset %d", position),
						"set amqp.stream.missing")
					return
				}
				sub := task.Open(source, 1)
				r.bodies(stream, "new")
				first := subscribetest.Texts(sub.Take(1))[:2]
				if missing == "latest" && first != "ne" || missing == "earliest" && first == "ne" {
					t.Errorf("received %q first", first)
				}
			})
		}
	}
}

// An empty stream may be one that is starting: nothing is decided, whatever was chosen.
func TestStreamEmpty(t *testing.T) {
	r := newRig(t)
	stream := r.declare("stream")
	task := taskAt(t, stream, 7)
	err := task.Refused(r.stream(stream, amqp.Stream{Missing: "earliest"}), 1)
	subscribetest.WantError(t, err, stream, "is empty", "offset 7")
	if errors.Is(err, subscribe.ErrStop) {
		t.Errorf("%v wraps ErrStop", err)
	}
	if _, sets := task.Store.Held(); sets > 0 {
		t.Error("the position was changed")
	}
}

// A position in the middle of the last chunk, at the end, and in an empty stream is there.
func TestStreamPosition(t *testing.T) {
	r := newRig(t)
	stream := r.declare("stream")
	taskAt(t, stream, 0).Open(r.stream(stream, amqp.Stream{}), 1)
	var many []subscribe.Message
	for i := range 3000 {
		many = append(many, subscribe.Message{Body: fmt.Append(nil, i)})
	}
	r.publish(stream, many...)
	taskAt(t, stream, 2998).Open(r.stream(stream, amqp.Stream{}), 1).Expect("2998 2999")
	end := taskAt(t, stream, 3000).Open(r.stream(stream, amqp.Stream{}), 1)
	r.bodies(stream, "new")
	end.Expect("new")
}

// taskAt makes a task with a position in a stream.
func taskAt(t *testing.T, stream string, next int) *subscribetest.Task {
	t.Helper()
	task := subscribetest.NewTask(t)
	task.Store = subscribetest.NewStore(fmt.Appendf(nil, `{"stream":%q,"next":%d}`, stream, next))
	return task
}

// A position that is not one is not guessed at, and that of another stream is none of this one.
func TestStreamForeignPosition(t *testing.T) {
	r := newRig(t)
	stream := r.declare("stream")
	r.bodies(stream, "a")
	task := subscribetest.NewTask(t)
	task.Store = subscribetest.NewStore([]byte("42"))
	subscribetest.WantStop(t, task.Refused(r.stream(stream, amqp.Stream{}), 1), stream, "is not one of a stream")
	taskAt(t, "other", 7).Open(r.stream(stream, amqp.Stream{}), 1).Expect("a")
}

// A stale owner moves no position.
func TestStreamStaleOwner(t *testing.T) {
	r := newRig(t)
	stream := r.declare("stream")
	r.bodies(stream, "a", "b")
	task := subscribetest.NewTask(t)
	stale := task.Open(r.stream(stream, amqp.Stream{}), 1)
	got := stale.Take(2)
	task.Open(r.stream(stream, amqp.Stream{}), 2).Expect("a b")
	if err := stale.TryAck(got...); err == nil {
		t.Error("the Ack of a stale owner returned no error")
	}
	if value, _ := task.Store.Held(); value != nil {
		t.Errorf("a stale owner kept %s", value)
	}
}

// A stream that is declared anew has other messages at the same offsets. The one before the position says so.
func TestLongerStreamMadeAgain(t *testing.T) {
	r := newRig(t)
	for _, start := range []string{"earliest", "latest"} {
		for missing, want := range map[string]string{"stop": "", "earliest": "n0 n1 n2 n3 n4 n5 new", "latest": "new"} {
			t.Run(start+" "+missing, func(t *testing.T) {
				stream := r.declare("stream")
				r.bodies(stream, "a", "b", "c")
				source := r.stream(stream, amqp.Stream{Start: start, Missing: missing})
				task := subscribetest.NewTask(t)
				first := task.Open(source, 1)
				if start == "earliest" {
					first.Ack(first.Expect("a b c")...)
				}
				first.Close()
				task.Log.Reset()
				task.Open(source, 2).Close() // it is the one that was read
				task.Log.WantNone(t)
				if _, err := r.QueueDelete(stream, false, false, false); err != nil {
					t.Fatal(err)
				}
				r.declareAs(stream, "stream")
				r.bodies(stream, "n0", "n1", "n2", "n3", "n4", "n5")
				if missing == "stop" {
					subscribetest.WantStop(t, task.Refused(source, 3), stream, "made again", "set amqp.stream.missing")
					return
				}
				task.Open(source, 3).Close()
				again := task.Open(source, 4)
				r.bodies(stream, "new")
				got := again.Expect(want)
				again.Ack(got[:len(got)-1]...)
				again.Close()
				last := task.Open(source, 5).Expect("new")[0]
				if is := got[len(got)-1]; is.Origin == "" || last.Unique() != is.Unique() {
					t.Errorf("the message is %s, and then %s", is.Unique(), last.Unique())
				}
				task.Log.Want(t, "Messages are missing", "made again")
				if n := task.Log.Count("Messages are missing"); n != 1 {
					t.Errorf("it is said %d times: %q", n, task.Log.All())
				}
			})
		}
	}
}

//go:build unix

package amqp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/amqp"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/subscribetest"
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
			source, store := r.stream(stream, amqp.Stream{Start: c.start}), subscribetest.NewStore(nil)
			first := open(t, source, session(t, store, 1))
			if c.start == "latest" { // it is kept: nothing is missed between two runs
				closeSub(t, first)
				r.bodies(stream, "new")
				first = open(t, source, session(t, store, 2))
			} else {
				r.bodies(stream, "new")
			}
			got := take(t, first, len(strings.Fields(c.want)))
			wantTexts(t, got, c.want)
			ack(t, first, got...)
			closeSub(t, first)
			r.bodies(stream, "next")
			next := take(t, open(t, source, session(t, store, 3)), 1)
			wantTexts(t, next, "next")
			if next[0].ID != stream+"/4" {
				t.Errorf("the ID is %q, want %s/4", next[0].ID, stream)
			}
		})
	}
}

// A position that the stream no longer has is told, and what follows is chosen.
func TestStreamMissing(t *testing.T) {
	r := newRig(t)
	cases := map[string]func(t *testing.T) (stream string, position int){
		"removed": func(t *testing.T) (string, int) {
			t.Helper()
			stream := r.declare("stream", "x-max-length-bytes", int64(2000), "x-stream-max-segment-size-bytes", int64(1000))
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
				kept := fmt.Appendf(nil, `{"stream":%q,"next":%d}`, stream, position)
				source := r.stream(stream, amqp.Stream{Missing: missing})
				sub, err := tryOpen(t, source, session(t, subscribetest.NewStore(kept), 1))
				if missing == "stop" {
					wantError(t, err, stream, fmt.Sprintf("offset %d", position), "set amqp.stream.missing")
					if !errors.Is(err, subscribe.ErrStop) {
						t.Errorf("%v does not wrap ErrStop", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				r.bodies(stream, "new")
				first := texts(take(t, sub, 1))[:2]
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
	store := position(stream, 7)
	_, err := tryOpen(t, r.stream(stream, amqp.Stream{Missing: "earliest"}), session(t, store, 1))
	wantError(t, err, stream, "is empty", "offset 7")
	if errors.Is(err, subscribe.ErrStop) {
		t.Errorf("%v wraps ErrStop", err)
	}
	if _, sets := store.Held(); sets > 0 {
		t.Error("the position was changed")
	}
}

// A position in the middle of the last chunk, at the end, and in an empty stream is there.
func TestStreamPosition(t *testing.T) {
	r := newRig(t)
	stream := r.declare("stream")
	if sub := open(t, r.stream(stream, amqp.Stream{}), session(t, position(stream, 0), 1)); sub == nil {
		t.Fatal("no subscription")
	}
	var many []subscribe.Message
	for i := range 3000 {
		many = append(many, subscribe.Message{Body: fmt.Append(nil, i)})
	}
	r.publish(stream, many...)
	wantTexts(t, take(t, open(t, r.stream(stream, amqp.Stream{}), session(t, position(stream, 2998), 1)), 2), "2998 2999")
	end := open(t, r.stream(stream, amqp.Stream{}), session(t, position(stream, 3000), 1))
	r.bodies(stream, "new")
	wantTexts(t, take(t, end, 1), "new")
}

func position(stream string, next int) *subscribetest.Store {
	return subscribetest.NewStore(fmt.Appendf(nil, `{"stream":%q,"next":%d}`, stream, next))
}

// A position that is not one is not guessed at, and that of another stream is none of this one.
func TestStreamForeignPosition(t *testing.T) {
	r := newRig(t)
	stream := r.declare("stream")
	r.bodies(stream, "a")
	_, err := tryOpen(t, r.stream(stream, amqp.Stream{}), session(t, subscribetest.NewStore([]byte("42")), 1))
	wantError(t, err, stream, "is not one of a stream")
	if !errors.Is(err, subscribe.ErrStop) {
		t.Errorf("%v does not wrap ErrStop", err)
	}
	wantTexts(t, take(t, open(t, r.stream(stream, amqp.Stream{}), session(t, position("other", 7), 1)), 1), "a")
}

// A stale owner moves no position.
func TestStreamStaleOwner(t *testing.T) {
	r := newRig(t)
	stream := r.declare("stream")
	r.bodies(stream, "a", "b")
	store := subscribetest.NewStore(nil)
	stale := open(t, r.stream(stream, amqp.Stream{}), session(t, store, 1))
	got := take(t, stale, 2)
	owner := open(t, r.stream(stream, amqp.Stream{}), session(t, store, 2))
	wantTexts(t, take(t, owner, 2), "a b")
	if err := stale.Ack(t.Context(), got); err == nil {
		t.Error("the Ack of a stale owner returned no error")
	}
	if value, _ := store.Held(); value != nil {
		t.Errorf("a stale owner kept %s", value)
	}
}

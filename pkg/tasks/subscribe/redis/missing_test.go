package redis_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/redis"
)

// Entries that no one had read are removed while no one is subscribed.
func TestTrimmedPosition(t *testing.T) {
	for _, offsets := range []string{redis.Broker, redis.Store} {
		for missing, want := range map[string]string{
			"": "", redis.Earliest: "4 5 6", redis.Latest: "6", redis.Stop: "",
		} {
			t.Run(offsets+","+missing, func(t *testing.T) {
				r := newRig(t, 2)
				r.source.Offsets, r.source.Missing = offsets, missing
				s := r.open(1)
				s.ack(s.read(2))
				s.close()
				for n := 2; n < 6; n++ {
					r.add(fmt.Sprint(n))
				}
				r.do("XTRIM", r.source.Stream, "MAXLEN", 2) // 2 and 3 are lost
				if want == "" {
					for range 2 { // it does not go on by itself
						err := r.refused(2)
						wants(t, err, "up to 2 entries after the position", "redis.missing", r.source.Stream)
						if !errors.Is(err, subscribe.ErrStop) {
							t.Errorf("error %v does not stop the task", err)
						}
					}
					return
				}
				s = r.open(2)
				if !r.lines.has("Messages are missing", "up to 2 entries", "to") {
					t.Errorf("logged %q", r.lines.all)
				}
				r.add("6")
				if got := s.read(len(want)/2 + 1); bodies(got) != want {
					t.Errorf("got %s, want %s", bodies(got), want)
				} else {
					s.ack(got)
				}
				s.close()
				r.lines.all = nil
				r.open(3).close() // it is said once
				if len(r.lines.all) > 0 {
					t.Errorf("logged %q again", r.lines.all)
				}
			})
		}
	}
}

// What was worked on may be removed: nothing is missing.
func TestTrimmedAfterItWasRead(t *testing.T) {
	for _, offsets := range []string{redis.Broker, redis.Store} {
		t.Run(offsets, func(t *testing.T) {
			r := newRig(t, 5)
			r.source.Offsets, r.source.Missing = offsets, redis.Stop
			s := r.open(1)
			for n := 5; n < 30; n++ {
				s.ack(s.read(1))
				r.do("XTRIM", r.source.Stream, "MAXLEN", 4) // those before are acknowledged
				r.add(fmt.Sprint(n))
			}
			s.ack(s.read(5))
			r.do("XTRIM", r.source.Stream, "MAXLEN", 0)
			s.close()
			s = r.open(2)
			r.add("last")
			if got := s.read(1); bodies(got) != "last" {
				t.Errorf("got %s", bodies(got))
			}
			if len(r.lines.all) > 0 {
				t.Errorf("logged %q", r.lines.all)
			}
		})
	}
}

// Entries are removed while the subscription is open and behind.
func TestTrimmedWhileOpen(t *testing.T) {
	for _, offsets := range []string{redis.Broker, redis.Store} {
		t.Run(offsets, func(t *testing.T) {
			r := newRig(t, 0)
			r.add("0")
			r.source.Offsets, r.source.Missing = offsets, redis.Earliest
			s := r.open(1)
			s.ack(s.read(1))
			// Both at once: the reader sees the stream before or after.
			pipe := r.client.TxPipeline()
			for n := range 10 {
				pipe.Do(t.Context(), "XADD", r.source.Stream, "*", "body", n)
			}
			pipe.Do(t.Context(), "XTRIM", r.source.Stream, "MAXLEN", 3)
			if _, err := pipe.Exec(within(t)); err != nil {
				t.Fatal(err)
			}
			_, err := s.Receive(within(t), 1)
			wants(t, err, "entries were removed before they were read", "redis.missing", r.source.Stream)
			s.close()
			if got := r.open(1).read(3); bodies(got) != "7 8 9" {
				t.Errorf("got %s", bodies(got))
			}
			if !r.lines.has("Messages are missing", "up to 7 entries") {
				t.Errorf("logged %q", r.lines.all)
			}
		})
	}
}

// Entries are removed that a replica had taken and not acknowledged.
func TestTrimmedWhilePending(t *testing.T) {
	r := newRig(t, 5)
	r.source.Missing = redis.Stop
	s := r.open(1)
	s.read(5)
	s.close()
	r.do("XTRIM", r.source.Stream, "MAXLEN", 3)
	for range 2 {
		if err := r.refused(2); !errors.Is(err, subscribe.ErrStop) {
			t.Errorf("error %v does not stop the task", err)
		}
	}
	r.source.Missing = redis.Earliest
	s = r.open(3)
	got := s.read(3)
	if bodies(got) != "2 3 4" {
		t.Errorf("got %s", bodies(got))
	}
	s.ack(got)
	if !r.lines.has("Messages are missing", "removed before they were acknowledged") || r.pending() != 0 {
		t.Errorf("logged %q, %d are pending", r.lines.all, r.pending())
	}
}

// The stream is deleted and made again, or loses its end.
func TestStreamMadeAgain(t *testing.T) {
	for _, offsets := range []string{redis.Broker, redis.Store} {
		for _, missing := range []string{redis.Earliest, redis.Stop} {
			t.Run(offsets+","+missing, func(t *testing.T) {
				r := newRig(t, 3)
				r.source.Offsets, r.source.Missing = offsets, missing
				s := r.open(1)
				s.ack(s.read(3))
				r.do("DEL", r.source.Stream)
				_, err := s.Receive(within(t), 1)
				wants(t, err, r.source.Stream)
				s.close()
				wants(t, r.refused(1), "no such stream", "redis.stream")
				r.do("XADD", r.source.Stream, "5-1", "body", "a")
				if missing == redis.Stop {
					if err := r.refused(2); !errors.Is(err, subscribe.ErrStop) {
						t.Errorf("error %v does not stop the task", err)
					}
					return
				}
				got := r.open(2).read(1)
				if bodies(got) != "a" || !got[0].Time.IsZero() {
					t.Errorf("got %s of %s", bodies(got), got[0].Time)
				}
				if !r.lines.has("Messages are missing") {
					t.Errorf("logged %q", r.lines.all)
				}
			})
		}
	}
}

// A checkpoint is of one stream.
func TestCheckpoint(t *testing.T) {
	r := newRig(t, 3)
	r.source.Offsets = redis.Store
	s := r.open(1)
	s.ack(s.read(2))
	s.close()
	if got := r.open(2).read(1); bodies(got) != "2" {
		t.Errorf("got %s", bodies(got))
	}
	if n := r.do("EXISTS", "{"+r.source.Stream+"}:shardctl:shardctl.shop.orders"); n != int64(0) {
		t.Error("something was written to the broker")
	}
	other := *r
	other.source.Stream = testbroker.Name()
	other.add("first")
	if got := other.open(3).read(1); bodies(got) != "first" {
		t.Errorf("got %s", bodies(got))
	}
	if !r.lines.has("The checkpoint is of another stream", r.source.Stream) {
		t.Errorf("logged %q", r.lines.all)
	}
	r.kept.value = []byte("{")
	wants(t, r.refused(4), "checkpoint is malformed", r.source.Stream)
	r.kept.value = []byte(`{"stream":"` + r.source.Stream + `","id":"x"}`)
	wants(t, r.refused(4), "checkpoint is malformed", `"x"`)
}

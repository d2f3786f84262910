package nats_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
)

// Messages that no one had read are removed while no one is subscribed.
func TestTrimmedPosition(t *testing.T) {
	for missing, want := range map[string]string{
		"": "", subscribe.Stop: "", subscribe.Earliest: "4 5 6", subscribe.Latest: "6",
	} {
		t.Run(missing, func(t *testing.T) {
			r := newRig(t)
			r.source.Missing = missing
			r.stream(jetstream.StreamConfig{MaxMsgs: 2})
			r.add("a", "0", "1")
			s := r.open(1)
			s.Ack(s.Take(2)...)
			s.Close()
			r.waitGone()
			r.add("a", "2", "3", "4", "5") // 2 and 3 are lost
			if want == "" {
				for range 2 { // it does not go on by itself
					err := r.refused(2)
					subscribetest.WantStop(t, err, "up to 2 messages after the position 2", "nats.missing", r.name)
				}
				return
			}
			s = r.open(2)
			r.Log.Want(t, "up to 2 messages")
			r.Log.Reset()
			if missing == subscribe.Earliest {
				s.Ack(s.Expect("4 5")...)
			}
			r.add("a", "6")
			s.Ack(s.Expect("6")...)
			s.Close()
			r.open(3) // it is said once
			r.Log.WantNone(t)
		})
	}
}

// What was worked on may be removed, and what is of other subjects.
func TestTrimmedAfterItWasRead(t *testing.T) {
	for _, filter := range []string{"", ".eu"} {
		t.Run(filter, func(t *testing.T) {
			r := newRig(t)
			if filter != "" {
				r.source.Subject = r.name + filter
			}
			r.stream(jetstream.StreamConfig{MaxMsgs: 3})
			s := r.open(1)
			r.Log.Reset()
			for range 3 {
				r.add("eu", "0", "1", "2")
				s.Ack(s.Take(3)...)
			}
			if filter != "" {
				r.add("us", numbers(10)...)
				s.Lag() // notes that all of ours is acknowledged
				r.add("us", "11", "12", "13")
				s.Lag()
			}
			s.Close()
			s = r.open(2)
			r.add("eu", "last")
			s.Expect("last")
			r.Log.WantNone(t)
		})
	}
}

// Messages are removed while the subscription is open and behind.
func TestTrimmedWhileOpen(t *testing.T) {
	r := newRig(t)
	r.source.Missing = subscribe.Earliest
	r.stream(jetstream.StreamConfig{})
	r.add("a", numbers(600)...)
	s := r.open(1)
	s.Ack(s.Take(1)...) // the next few hundred are read ahead
	stream, err := r.js.Stream(r.within(), r.name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.js.UpdateStream(r.within(), func() jetstream.StreamConfig {
		config := stream.CachedInfo().Config
		config.MaxMsgs = 5
		return config
	}()); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		var got []subscribe.Message
		if got, err = s.TryReceive(1); err == nil {
			s.Ack(got...)
		}
	}
	subscribetest.WantError(t, err, "were removed before they were read", "nats.missing", r.name)
	s.Close()
	r.open(1).Expect("596 597 598 599 600")
	r.Log.Want(t, "messages after the position 1")
}

// A stream that was made again is another one, and has no position of the one before, also where it is longer. A
// consumer that somebody deletes takes the position along, too.
func TestPositionGone(t *testing.T) {
	for what, says := range map[string]string{"the stream": "made again", "the consumer": "the consumer was deleted"} {
		for missing, want := range map[string]string{"": "", subscribe.Earliest: "x y z new", subscribe.Latest: "new"} {
			t.Run(what+","+missing, func(t *testing.T) {
				r := newRig(t)
				r.source.Start, r.source.Missing = subscribe.Latest, missing
				r.stream(jetstream.StreamConfig{})
				s := r.open(1)
				r.add("a", "0", "1")
				s.Ack(s.Take(2)...)
				s.Close()
				if what == "the stream" {
					if err := r.js.DeleteStream(r.within(), r.name); err != nil {
						t.Fatal(err)
					}
					subscribetest.WantError(t, r.refused(2), "there is no such stream")
					r.stream(jetstream.StreamConfig{})
				} else {
					if err := r.js.DeleteConsumer(r.within(), r.name, r.consumers()[0]); err != nil {
						t.Fatal(err)
					}
				}
				r.add("a", "x", "y", "z")
				if missing == "" {
					for range 2 { // it does not go on by itself
						subscribetest.WantStop(t, r.refused(3), says, "nats.missing", r.name)
					}
					return
				}
				r.Log.Reset()
				s = r.open(3)
				r.Log.Want(t, "Messages are missing", says)
				if r.Log.Count("No position was kept") > 0 {
					t.Errorf("it says that there was no position: %q", r.Log.All())
				}
				r.add("a", "new")
				if what == "the consumer" && missing == subscribe.Earliest {
					want = "0 1 " + want
				}
				s.Ack(s.Expect(want)...)
				s.Close()
				r.Log.Reset()
				r.open(4).Close() // it is said once
				r.Log.WantNone(t)
			})
		}
	}
}

func TestWorkQueueHasNoPast(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	r.source.Start = subscribe.Latest
	subscribetest.WantError(t, r.refused(1), "work queue", "nats.start must be earliest")
}

package nats_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/nats"
)

// Messages that no one had read are removed while no one is subscribed.
func TestTrimmedPosition(t *testing.T) {
	for missing, want := range map[string]string{
		"": "", nats.Stop: "", nats.Earliest: "4 5 6", nats.Latest: "6",
	} {
		t.Run(missing, func(t *testing.T) {
			r := newRig(t)
			r.source.Missing = missing
			r.stream(jetstream.StreamConfig{MaxMsgs: 2})
			r.add("a", "0", "1")
			s := r.open(1)
			s.ack(s.read(2))
			s.close()
			r.waitGone()
			r.add("a", "2", "3", "4", "5") // 2 and 3 are lost
			if want == "" {
				for range 2 { // it does not go on by itself
					err := r.refused(2)
					wants(t, err, "up to 2 messages after the position 2", "nats.missing", r.name)
					if !errors.Is(err, subscribe.ErrStop) {
						t.Errorf("error %v does not stop the task", err)
					}
				}
				return
			}
			s = r.open(2)
			if said := r.lines.take(); !strings.Contains(said, "up to 2 messages") {
				t.Errorf("logged %q", said)
			}
			if missing == nats.Earliest {
				if got := s.read(2); bodies(got) != "4 5" {
					t.Errorf("got %s", bodies(got))
				} else {
					s.ack(got)
				}
			}
			r.add("a", "6")
			if got := s.read(1); bodies(got) != "6" {
				t.Errorf("got %s", bodies(got))
			} else {
				s.ack(got)
			}
			s.close()
			r.open(3) // it is said once
			if said := r.lines.take(); said != "" {
				t.Errorf("logged %q again", said)
			}
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
			for range 3 {
				r.add("eu", "0", "1", "2")
				s.ack(s.read(3))
			}
			if filter != "" {
				r.add("us", numbers(10)...)
				s.lag() // notes that all of ours is acknowledged
				r.add("us", "11", "12", "13")
				s.lag()
			}
			s.close()
			s = r.open(2)
			r.add("eu", "last")
			if got := s.read(1); bodies(got) != "last" {
				t.Errorf("got %s", bodies(got))
			}
			if said := r.lines.take(); said != "" {
				t.Errorf("logged %q", said)
			}
		})
	}
}

// Messages are removed while the subscription is open and behind.
func TestTrimmedWhileOpen(t *testing.T) {
	r := newRig(t)
	r.source.Missing = nats.Earliest
	r.stream(jetstream.StreamConfig{})
	r.add("a", numbers(600)...)
	s := r.open(1)
	s.ack(s.read(1)) // the next few hundred are read ahead
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
		if got, err = s.Receive(r.within(), 1); err == nil {
			s.ack(got)
		}
	}
	wants(t, err, "were removed before they were read", "nats.missing", r.name)
	s.close()
	if got := r.open(1).read(5); bodies(got) != "596 597 598 599 600" {
		t.Errorf("got %s", bodies(got))
	}
	if said := r.lines.take(); !strings.Contains(said, "messages after the position 1") {
		t.Errorf("logged %q", said)
	}
}

// A stream that was made again is another one.
func TestStreamMadeAgain(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{})
	r.add("a", "0", "1")
	s := r.open(1)
	s.ack(s.read(2))
	if err := r.js.DeleteStream(r.within(), r.name); err != nil {
		t.Fatal(err)
	}
	_, err := s.Receive(r.within(), 1)
	wants(t, err, r.name)
	s.close()
	wants(t, r.refused(1), "there is no such stream")
	r.stream(jetstream.StreamConfig{})
	r.add("a", "x")
	if got := r.open(1).read(1); bodies(got) != "x" {
		t.Errorf("got %s", bodies(got))
	}
}

func TestWorkQueueHasNoPast(t *testing.T) {
	r := newRig(t)
	r.stream(jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	r.source.Start = nats.Latest
	wants(t, r.refused(1), "work queue", "nats.start must be earliest")
}

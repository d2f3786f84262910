package redis_test

import (
	"fmt"
	"testing"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/test/testbroker"
)

// Entries that no one had read are removed while no one is subscribed.
func TestTrimmedPosition(t *testing.T) {
	for _, offsets := range []string{subscribe.Broker, subscribe.Store} {
		for missing, want := range map[string]string{
			"": "", subscribe.Earliest: "4 5 6", subscribe.Latest: "6", subscribe.Stop: "",
		} {
			t.Run(offsets+","+missing, func(t *testing.T) {
				r := newRig(t, 2)
				r.source.Offsets, r.source.Missing = offsets, missing
				s := r.open(1)
				s.Ack(s.Take(2)...)
				s.Close()
				for n := 2; n < 6; n++ {
					r.add(fmt.Sprint(n))
				}
				r.do("XTRIM", r.source.Stream, "MAXLEN", 2) // 2 and 3 are lost
				if want == "" {
					for range 2 { // it does not go on by itself
						subscribetest.WantStop(t, r.refused(2), "up to 2 entries after the position", "redis.missing",
							r.source.Stream)
					}
					return
				}
				s = r.open(2)
				r.Log.Want(t, "Messages are missing", "up to 2 entries", "to")
				r.add("6")
				s.Ack(s.Expect(want)...)
				s.Close()
				r.Log.Reset()
				r.open(3).Close() // it is said once
				r.Log.WantNone(t)
			})
		}
	}
}

// What was worked on may be removed: nothing is missing.
func TestTrimmedAfterItWasRead(t *testing.T) {
	for _, offsets := range []string{subscribe.Broker, subscribe.Store} {
		t.Run(offsets, func(t *testing.T) {
			r := newRig(t, 5)
			r.source.Offsets, r.source.Missing = offsets, subscribe.Stop
			s := r.open(1)
			r.Log.Reset()
			for n := 5; n < 30; n++ {
				s.Ack(s.Take(1)...)
				r.do("XTRIM", r.source.Stream, "MAXLEN", 4) // those before are acknowledged
				r.add(fmt.Sprint(n))
			}
			s.Ack(s.Take(5)...)
			r.do("XTRIM", r.source.Stream, "MAXLEN", 0)
			s.Close()
			s = r.open(2)
			r.add("last")
			s.Expect("last")
			r.Log.WantNone(t)
		})
	}
}

// Entries are removed while the subscription is open and behind.
func TestTrimmedWhileOpen(t *testing.T) {
	for _, offsets := range []string{subscribe.Broker, subscribe.Store} {
		t.Run(offsets, func(t *testing.T) {
			r := newRig(t, 0)
			r.add("0")
			r.source.Offsets, r.source.Missing = offsets, subscribe.Earliest
			s := r.open(1)
			s.Ack(s.Take(1)...)
			// Both at once: the reader sees the stream before or after.
			pipe := r.client.TxPipeline()
			for n := range 10 {
				pipe.Do(t.Context(), "XADD", r.source.Stream, "*", "body", n)
			}
			pipe.Do(t.Context(), "XTRIM", r.source.Stream, "MAXLEN", 3)
			if _, err := pipe.Exec(subscribetest.Context(t)); err != nil {
				t.Fatal(err)
			}
			subscribetest.WantError(t, s.Fails(0), "entries were removed before they were read", "redis.missing",
				r.source.Stream)
			s.Close()
			r.open(1).Expect("7 8 9")
			r.Log.Want(t, "Messages are missing", "up to 7 entries")
		})
	}
}

// Entries are removed that a replica had taken and not acknowledged.
func TestTrimmedWhilePending(t *testing.T) {
	r := newRig(t, 5)
	r.source.Missing = subscribe.Stop
	s := r.open(1)
	s.Take(5)
	s.Close()
	r.do("XTRIM", r.source.Stream, "MAXLEN", 3)
	for range 2 {
		subscribetest.WantStop(t, r.refused(2))
	}
	r.source.Missing = subscribe.Earliest
	s = r.open(3)
	s.Ack(s.Expect("2 3 4")...)
	r.Log.Want(t, "Messages are missing", "removed before they were acknowledged")
	if n := r.pending(); n != 0 {
		t.Errorf("%d entries are pending", n)
	}
}

// The stream is deleted and made again, or loses its end.
func TestStreamMadeAgain(t *testing.T) {
	for _, offsets := range []string{subscribe.Broker, subscribe.Store} {
		for _, missing := range []string{subscribe.Earliest, subscribe.Stop} {
			t.Run(offsets+","+missing, func(t *testing.T) {
				r := newRig(t, 3)
				r.source.Offsets, r.source.Missing = offsets, missing
				s := r.open(1)
				s.Ack(s.Take(3)...)
				r.do("DEL", r.source.Stream)
				subscribetest.WantError(t, s.Fails(0), r.source.Stream)
				s.Close()
				subscribetest.WantError(t, r.refused(1), "no such stream", "redis.stream")
				r.do("XADD", r.source.Stream, "5-1", "body", "a")
				if missing == subscribe.Stop {
					subscribetest.WantStop(t, r.refused(2))
					return
				}
				if m := r.open(2).Expect("a")[0]; !m.Time.IsZero() {
					t.Errorf("the time is %s", m.Time)
				}
				r.Log.Want(t, "Messages are missing")
			})
		}
	}
}

// A checkpoint is of one stream.
func TestCheckpoint(t *testing.T) {
	r := newRig(t, 3)
	r.source.Offsets = subscribe.Store
	s := r.open(1)
	s.Ack(s.Take(2)...)
	s.Close()
	r.open(2).Expect("2")
	if n := r.do("EXISTS", "{"+r.source.Stream+"}:shardctl:shardctl.shop.orders"); n != int64(0) {
		t.Error("something was written to the broker")
	}
	other := *r
	other.source.Stream = testbroker.Name()
	other.add("first")
	other.open(3).Expect("first")
	r.Log.Want(t, "A position of another stream is dropped", r.source.Stream)
	r.Store = subscribetest.NewStore([]byte("{"))
	subscribetest.WantError(t, r.refused(4), "checkpoint is malformed", r.source.Stream)
	r.Store = subscribetest.NewStore([]byte(`{"stream":"` + r.source.Stream + `","id":"x"}`))
	subscribetest.WantError(t, r.refused(4), "checkpoint is malformed", `"x"`)
}

// numbered makes a stream of so many entries with IDs of their own, of which the text is one.
func numbered(t *testing.T, entries int, text string) *rig {
	t.Helper()
	r := newRig(t, 0)
	r.number(entries, text)
	return r
}

func (r *rig) number(entries int, text string) {
	r.T.Helper()
	for n := range entries {
		r.do("XADD", r.source.Stream, fmt.Sprintf("1-%d", n+1), "body", fmt.Sprint(text, n))
	}
}

// A stream whose IDs are chosen may be made again with those that were read, as entries say that are others.
func TestOtherEntriesOfTheSameIDs(t *testing.T) {
	for _, missing := range []string{subscribe.Earliest, subscribe.Stop} {
		t.Run(missing, func(t *testing.T) {
			r := numbered(t, 4, "")
			r.source.Offsets, r.source.Missing = subscribe.Store, missing
			s := r.open(1)
			s.Ack(s.Take(4)...)
			s.Close()
			r.source.Field = "text"
			r.open(2).Close() // those that were read are there, whatever is read of them
			r.source.Field = ""
			r.do("DEL", r.source.Stream)
			r.number(6, "n")
			if missing == subscribe.Stop {
				subscribetest.WantStop(t, r.refused(3), r.source.Stream, "redis.missing", "made again")
				return
			}
			r.open(3).Expect("n0 n1 n2 n3 n4 n5")
			r.Log.Want(t, "Messages are missing", "made again")
		})
	}
}

// A stream that is made again may be longer than what was read of the one before, and may have been trimmed since. What
// was read says so, also where nothing beside the stream is left of the group.
func TestLongerStreamMadeAgain(t *testing.T) {
	for _, offsets := range []string{subscribe.Broker, subscribe.Store} {
		for _, missing := range []string{subscribe.Earliest, subscribe.Latest, subscribe.Stop} {
			for _, emptied := range []bool{false, true} {
				for trimmed, left := range map[int]string{0: "n0 n1 n2 n3 n4 n5", 2: "n2 n3 n4 n5", 5: "n5"} {
					t.Run(fmt.Sprint(offsets, ",", missing, ",", emptied, ",", trimmed), func(t *testing.T) {
						r := numbered(t, 4, "")
						r.source.Offsets, r.source.Missing = offsets, missing
						s := r.open(1)
						s.Ack(s.Take(4)...)
						s.Close()
						r.do("DEL", r.source.Stream)
						if emptied {
							r.do("DEL", "{"+r.source.Stream+"}:shardctl:shardctl.shop.orders")
						}
						for n := range 6 {
							r.add(fmt.Sprint("n", n))
						}
						r.do("XTRIM", r.source.Stream, "MAXLEN", 6-trimmed)
						if missing == subscribe.Stop {
							for range 2 { // it does not go on by itself
								subscribetest.WantStop(t, r.refused(2), r.source.Stream, "redis.missing")
							}
							return
						}
						r.Log.Reset()
						s = r.open(2)
						if missing == subscribe.Latest {
							left = "new"
						}
						r.add("new")
						if missing == subscribe.Earliest {
							left += " new"
						}
						s.Ack(s.Expect(left)...)
						r.Log.Want(t, "Messages are missing")
						s.Close()
						r.Log.Reset()
						r.open(3).Close() // it is said once
						r.Log.WantNone(t)
					})
				}
			}
		}
	}
}

// It is noticed while the subscription is open, too.
func TestLongerStreamMadeAgainWhileOpen(t *testing.T) {
	r := numbered(t, 4, "")
	r.source.Offsets, r.source.Missing = subscribe.Store, subscribe.Earliest
	s := r.open(1)
	s.Ack(s.Take(4)...)
	pipe := r.client.TxPipeline()
	pipe.Do(t.Context(), "DEL", r.source.Stream)
	for n := range 6 {
		pipe.Do(t.Context(), "XADD", r.source.Stream, "*", "body", n)
	}
	pipe.Do(t.Context(), "XTRIM", r.source.Stream, "MAXLEN", 4)
	if _, err := pipe.Exec(subscribetest.Context(t)); err != nil {
		t.Fatal(err)
	}
	subscribetest.WantError(t, s.Fails(0), r.source.Stream, "redis.missing")
	s.Close()
	r.open(1).Expect("2 3 4 5")
}

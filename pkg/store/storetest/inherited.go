package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Inherited tests a store whose sessions of the database began with something wrong that is right again, as a setting
// of the server, or a user who was dropped and made again. They would keep it for ever, so others are made.
type Inherited struct {
	// Open opens a client. It ends with the test.
	Open func(t *testing.T) driver.Store
	// Spoil has all sessions of the client begin with something wrong, so that its calls fail.
	Spoil func()
	// Mend makes it right for sessions that begin from now on.
	Mend func()
	// WatchEnds is that of [Faults].
	WatchEnds bool
}

// Run runs the test.
func (i Inherited) Run(t *testing.T) {
	t.Helper()
	f := Faults{Call: time.Second, WatchEnds: i.WatchEnds}
	s := i.Open(t)
	notes := f.watch(t, s)
	f.Until(t, s, Heartbeat("session", 0))
	f.Until(t, s, increment("g"))
	i.Spoil()
	// Again and again: the first ones may fail since their sessions were ended.
	const enough = 20
	for failed, end := 0, time.Now().Add(patience); failed < enough; failed++ {
		ctx, cancel := context.WithTimeout(t.Context(), f.call())
		outs, err := s.Apply(ctx, Heartbeat("session", 1), increment("g"))
		cancel()
		if err != nil || outs[0].Status != driver.Unknown || outs[1].Status != driver.Unknown {
			failed = 0
		}
		if time.Now().After(end) {
			t.Fatal("calls do not fail by what sessions begin with")
		}
		_ = clock.Sleep(t.Context(), 20*time.Millisecond)
	}
	i.Mend()
	// Each lane, reads, and a watch. What fails meanwhile may be about anything: callers go on.
	for _, c := range []driver.Change{Heartbeat("session", 1), increment("g"), Heartbeat("session", 2)} {
		untilApplied(t, s, c, f.call())
	}
	f.read(t, s, "session")
	f.wantWatched(t, s, notes, "watched", Fault{Name: "what sessions began with"})
}

// untilApplied repeats a change, whatever it fails by.
func untilApplied(t *testing.T, s driver.Store, c driver.Change, call time.Duration) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(t.Context(), call)
		outs, err := s.Apply(ctx, c)
		cancel()
		switch {
		case err != nil:
			t.Fatal(err)
		case outs[0].Status == driver.Applied:
			return
		case time.Now().After(end):
			t.Fatalf("%s %s is not applied within %v: %s", c.Doc.Kind, c.Doc.ID, patience, describe(outs[0]))
		}
		_ = clock.Sleep(t.Context(), 10*time.Millisecond)
	}
}

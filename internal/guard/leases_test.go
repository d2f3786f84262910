package guard

import (
	"reflect"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/elect"
)

const second = time.Second

// at is an instant of both clocks.
func at(d time.Duration) protocol.Instant { return instant(d, d) }

// deadlinesFrom are those of a lease of 20 s, with the renewal deadline after 15 s.
func deadlinesFrom(sent protocol.Instant) deadlines {
	return deadlines(wire.DeadlinesFrom(sent, 20*second, 15*second))
}

func TestPhaseChanges(t *testing.T) {
	l := newLeases()
	l.open("a")
	l.open("b")
	l.open("quiet")
	l.renew("a", deadlinesFrom(at(0)))
	l.renew("b", deadlinesFrom(at(1*second)))
	l.renew("unknown", deadlinesFrom(at(0)))
	for _, c := range []struct {
		now  time.Duration
		want []phaseChange
		next time.Duration
	}{
		{0, nil, 15 * second},
		{15 * second, nil, 250 * time.Millisecond}, // D: nothing starts, and the worker acts
		{15250 * time.Millisecond, []phaseChange{{"a", phaseCancel, phaseStop}}, 750 * time.Millisecond},
		{15300 * time.Millisecond, nil, 700 * time.Millisecond},
		{16 * second, []phaseChange{{"a", phaseStop, phaseKill}}, 250 * time.Millisecond},
		{18 * second, []phaseChange{{"a", phaseKill, phaseGone}, {"b", phaseCancel, phaseKill}}, second},
		{19 * second, []phaseChange{{"b", phaseKill, phaseGone}}, 0},
		{20 * second, nil, 0},
	} {
		now := at(c.now)
		if got := l.advance(now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("at %v: %v, want %v", c.now, got, c.want)
		}
		if left, ok := l.next(now); left != c.next || ok != (c.next > 0) {
			t.Errorf("at %v: next in %v, %v; want %v", c.now, left, ok, c.next)
		}
	}
	l.renew("a", deadlinesFrom(at(19*second)))
	if got := l.advance(at(20 * second)); got != nil {
		t.Errorf("renewed: %v", got)
	}
	want := []phaseChange{{"a", phaseHeld, phaseKill}}
	if got := l.advance(at(36 * second)); !reflect.DeepEqual(got, want) {
		t.Errorf("run out again: %v, want %v", got, want)
	}
}

func TestMayStartOnlyBeforeD(t *testing.T) {
	l := newLeases()
	l.open("new")
	l.open("held")
	l.renew("held", deadlinesFrom(at(0)))
	for session, until := range map[string]time.Duration{"unknown": 0, "new": 0, "held": 15 * second} {
		for _, now := range []time.Duration{0, 15*second - 1, 15 * second, 19 * second} {
			if may := l.mayStart(session, at(now)) == nil; may != (now < until) {
				t.Errorf("%s at %v: %v", session, now, may)
			}
		}
	}
	l.close("held")
	if l.mayStart("held", at(0)) == nil {
		t.Error("a closed session starts commands")
	}
}

// A run in the worker's own process overstays from the X of its session on, until it is over.
func TestOverstayed(t *testing.T) {
	l := newLeases()
	l.open("a")
	l.open("b")
	l.renew("a", deadlinesFrom(at(0)))
	l.renew("b", deadlinesFrom(at(1*second)))
	l.runInside("unknown", "g/k", false)
	l.runInside("a", "g/1", false)
	l.runInside("a", "g/2", false)
	l.runInside("b", "g/3", false)
	want := func(now time.Duration, want int) {
		t.Helper()
		if got := l.overstayed(at(now)); got != want {
			t.Errorf("at %v: %d runs, want %d", now, got, want)
		}
	}
	want(18*second-1, 0)
	want(18*second, 2)
	want(19*second, 3)
	l.runInside("a", "g/1", true)
	l.runInside("b", "g/3", true)
	want(19*second, 1)
	l.renew("a", deadlinesFrom(at(19*second)))
	want(19*second, 0)
}

func TestOverNeedsEverySession(t *testing.T) {
	l := newLeases()
	if l.over(at(0)) {
		t.Error("over without a session")
	}
	l.open("a")
	l.renew("a", deadlinesFrom(at(0)))
	if l.over(at(18*second-1)) || !l.over(at(18*second)) {
		t.Error("not over at X")
	}
	l.open("new")
	if l.over(at(18 * second)) {
		t.Error("over with a session that is only opening")
	}
}

func TestDeadCountsRemoteLeasesAsAKillerDoes(t *testing.T) {
	l := newLeases()
	l.open("b")
	l.open("a")
	for key, until := range map[elect.Key]protocol.Instant{
		"g/open":    instant(30*second, 130*second),
		"g/slept":   instant(30*second, 109*second), // over on one clock only
		"g/over":    instant(9*second, 109*second),
		"g/stopped": instant(30*second, 130*second),
	} {
		l.remote("a", key, &until)
	}
	l.remote("a", "g/stopped", nil)
	l.remote("unknown", "g/open", nil)
	got := l.dead(instant(10*second, 110*second))
	want := []electing.Session{
		{ID: "a", Remote: map[elect.Key]time.Duration{"g/open": 20 * second, "g/slept": 20 * second}},
		{ID: "b", Remote: map[elect.Key]time.Duration{}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What the application may run is promised by one moment, for all of its keys of every session.
func TestDeadCountsTheKeysOfAnApplication(t *testing.T) {
	c := newCore()
	l := c.leases
	received := func(bodies ...any) {
		for _, b := range bodies {
			c.received(wire.Message{Body: b}, at(0))
		}
	}
	received(
		wire.SessionOpening{Session: "a"}, wire.SessionOpening{Session: "b"},
		wire.ApplicationKey{Session: "a", Key: "g/1"}, wire.ApplicationKey{Session: "a", Key: "g/returned"},
		wire.ApplicationKey{Session: "b", Key: "g/2"}, wire.ApplicationKey{Session: "unknown", Key: "g/3"},
	)
	if got := l.dead(at(0)); len(got[0].Remote) > 0 {
		t.Errorf("before anything was promised: %v", got)
	}
	received(
		wire.ApplicationValid{Until: at(30 * second)}, wire.ApplicationValid{Until: at(29 * second)},
		wire.ApplicationKey{Session: "a", Key: "g/returned", Over: true},
	)
	want := []electing.Session{
		{ID: "a", Remote: map[elect.Key]time.Duration{"g/1": 20 * second}},
		{ID: "b", Remote: map[elect.Key]time.Duration{"g/2": 20 * second}},
	}
	if got := l.dead(at(10 * second)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := l.dead(at(30 * second)); len(got[0].Remote)+len(got[1].Remote) > 0 {
		t.Errorf("after the last moment: %v", got)
	}
}

func instant(mono, boot time.Duration) protocol.Instant {
	return protocol.Instant{Mono: mono, Boot: boot}
}

func TestPhases(t *testing.T) {
	sent := instant(100*time.Second, 500*time.Second)
	d := deadlinesFrom(sent)
	for _, c := range []struct {
		name       string
		mono, boot time.Duration // since the heartbeat was sent
		want       phase
		next       time.Duration
	}{
		{"at once", 0, 0, phaseHeld, 15 * time.Second},
		{"just before D", 15*time.Second - 1, 15*time.Second - 1, phaseHeld, 1},
		{"at D", 15 * time.Second, 15 * time.Second, phaseCancel, 250 * time.Millisecond},
		{"a little later", 15250 * time.Millisecond, 15250 * time.Millisecond, phaseStop, 750 * time.Millisecond},
		{"at 0.8 T", 16 * time.Second, 16 * time.Second, phaseKill, 2 * time.Second},
		{"at X", 18 * time.Second, 18 * time.Second, phaseGone, 0},
		{"the machine slept", time.Second, 17 * time.Second, phaseKill, time.Second},
		{"only the other clock ran", 17 * time.Second, time.Second, phaseKill, time.Second},
	} {
		now := instant(sent.Mono+c.mono, sent.Boot+c.boot)
		if got := d.phaseAt(now); got != c.want {
			t.Errorf("%s: phase %d, want %d", c.name, got, c.want)
		}
		if left, ok := d.next(now); left != c.next || ok != (c.next > 0) {
			t.Errorf("%s: next in %v, %v; want %v", c.name, left, ok, c.next)
		}
	}
}

func TestNoDeadlineYet(t *testing.T) {
	var d deadlines
	if got := d.phaseAt(instant(1, 1)); got != phaseNone {
		t.Errorf("phase %d, want none", got)
	}
	if _, ok := d.next(instant(1, 1)); ok {
		t.Error("there is a next phase")
	}
}

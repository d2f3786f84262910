package guard

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

func instant(mono, boot time.Duration) protocol.Instant {
	return protocol.Instant{Mono: mono, Boot: boot}
}

func TestPhases(t *testing.T) {
	sent := instant(100*time.Second, 500*time.Second)
	d := DeadlinesFrom(sent, 20*time.Second, 15*time.Second)
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
	var d Deadlines
	if got := d.phaseAt(instant(1, 1)); got != phaseNone {
		t.Errorf("phase %d, want none", got)
	}
	if _, ok := d.next(instant(1, 1)); ok {
		t.Error("there is a next phase")
	}
}

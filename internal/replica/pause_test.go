package replica

import (
	"testing"
	"time"
)

func TestPauseAfterASnapshot(t *testing.T) {
	const ms = time.Millisecond
	for took, want := range map[time.Duration]time.Duration{
		0: publishGap, 2 * ms: publishGap, 20 * ms: 200 * ms, 100 * ms: publishMost, 390 * ms: 390 * ms,
		2000 * ms: 2000 * ms, time.Minute: loopPeriod,
	} {
		if got := pauseAfter(took); got != want {
			t.Errorf("after %v: %v, want %v", took, got, want)
		}
	}
}

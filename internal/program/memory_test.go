package program

import (
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// gcPercent is what holds now.
func gcPercent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// What the environment says holds.
func TestGOGCHolds(t *testing.T) {
	for gogc, want := range map[string]uint64{"70": 100, "": garbagePercent} {
		t.Run("GOGC="+gogc, func(t *testing.T) {
			was := debug.SetGCPercent(100)
			t.Cleanup(func() { debug.SetGCPercent(was) })
			t.Setenv("GOGC", gogc)
			if collectEarly(); gcPercent() != want {
				t.Errorf("GOGC is %d, want %d", gcPercent(), want)
			}
		})
	}
}

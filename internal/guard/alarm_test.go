package guard

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// dead is the number of a process that has ended and was waited for.
func dead(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "true")
	must(t, cmd.Run())
	return cmd.Process.Pid
}

// An alarm names what does not die. On a busy machine the survey that finds nothing may be late: that is none.
func TestAlarmNamesWhatIsAlive(t *testing.T) {
	sleeper := exec.CommandContext(t.Context(), "sleep", "1000")
	must(t, sleeper.Start())
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	})
	alive, gone := sleeper.Process.Pid, dead(t)
	for what, c := range map[string]struct {
		child child
		want  []int
	}{
		"the survey is late":              {child{pid: gone, reaped: true}, nil},
		"what it found has gone since":    {child{pid: gone, reaped: true, left: []proc{{pid: gone}}}, nil},
		"it left somebody":                {child{pid: gone, reaped: true, left: []proc{{pid: gone}, {pid: alive}}}, []int{alive}},
		"the command itself does not die": {child{pid: alive, left: []proc{{pid: alive}}}, []int{alive}},
	} {
		connection, _ := connPair(t)
		g := &keeper{conn: connection, lease: 4 * time.Second, ending: map[uint64]*child{1: &c.child}, notes: make(chan func(logr.Logger), 8)}
		now := Now()
		c.child.killing, c.child.killedAt = true, now
		g.checkStops(now.Add(50 * time.Millisecond)) // before T/50, when it kills again
		if c.child.alarmed || c.child.pending || len(g.notes) > 0 {
			t.Errorf("%s: told too early", what)
		}
		if got := c.child.alive(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v are alive, want %v", what, got, c.want)
		}
		for range 3 { // it is told once
			g.checkStops(now.Add(2 * time.Second))
		}
		if c.child.alarmed != (len(c.want) > 0) || len(g.notes) != 1 {
			t.Errorf("%s: alarmed %v, %d lines", what, c.child.alarmed, len(g.notes))
		}
	}
}

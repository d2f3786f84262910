package guard

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
)

// deadWorker has two commands of session s, 10 and 20, of which the first may not be signalled, and a key at an
// endpoint for 30 s. Its worker dies at 0, with a lease of 20 s.
func deadWorker() *core {
	c := newCore()
	c.commands = commandsOf(2)
	c.leases.open("s")
	until := at(30 * second)
	c.leases.remote("s", "h/remote", &until)
	c.shutdown.workerExited(killed, at(0))
	c.commands.killAll(true, at(0))
	c.commands.refused(refusal{1, []int{10}})
	return c
}

// kept are the keep effects among those that have come due.
func keptBy(c *core, now time.Duration) string {
	var out []string
	for _, e := range c.advance(at(now)) {
		if k, ok := e.(keepSessions); ok {
			out = append(out, drawn([]effect{k}))
		}
	}
	return strings.Join(out, "; ")
}

func answered(c *core, began time.Duration, err error) string {
	return drawn(c.kept(kept{at(began), map[string]error{"s": err}}, at(began)))
}

// The guard of a dead worker keeps a session every T/10 for as long as something of it may not be signalled, with the
// keys that others must not have, and no longer than until a second signal.
func TestWhatMayNotBeSignalledKeepsItsKey(t *testing.T) {
	c := deadWorker()
	want(t, "at once", keptBy(c, 0), "keep s map[g/a:true g/b:true h/remote:true]")
	want(t, "while that is under way", keptBy(c, second), "")
	want(t, "kept", answered(c, 0, nil), "")
	want(t, "not before T/10", keptBy(c, 2*second-1), "")
	c.commands.reaped(20, killed, at(second))
	c.commands.listed(childList{strangers: []child{{Proc: process.Proc{PID: 10, Group: 10}}}})
	want(t, "less what is gone", keptBy(c, 2*second), "keep s map[g/a:true h/remote:true]")
	answered(c, 2*second, nil)
	for now := 4 * second; now <= 100*second; now += 2 * second {
		if c.shutdown.over(at(now), false, c.mustKeep()) {
			t.Fatalf("given up at %v", now)
		}
		keys := "map[g/a:true h/remote:true]"
		if now >= 30*second {
			keys = "map[g/a:true h/remote:false]"
		}
		want(t, "every T/10", keptBy(c, now), "keep s "+keys)
		answered(c, now, nil)
	}
	if left := holderLeft(c.shutdown.markBy(), at(100*second)); left != 20*second {
		t.Errorf("the lease lasts %v longer, want it from the last heartbeat on", left)
	}
	c.shutdown.signalled(unix.SIGTERM, at(100*second))
	if c.shutdown.over(at(100*second), false, c.mustKeep()) {
		t.Error("one signal gives the keys up")
	}
	c.shutdown.signalled(unix.SIGTERM, at(100*second))
	if !c.shutdown.over(at(100*second), false, c.mustKeep()) {
		t.Error("a second signal does not give the keys up")
	}
}

func TestASessionIsKeptOnlyWhereThatIsOfUse(t *testing.T) {
	for what, change := range map[string]func(c *core){
		"all may be signalled":   func(c *core) { c.commands.refused(refusal{1, nil}) },
		"the worker lives":       func(c *core) { c.shutdown.worker.reaped = false },
		"the session has ended":  func(c *core) { c.leases.close("s") },
		"others have ended it":   func(c *core) { answered(c, 0, fmt.Errorf("dead: %w", electing.ErrDead)) },
		"what refused them ends": func(c *core) { c.commands.forget(c.commands.byID[1]) },
	} {
		c := deadWorker()
		change(c)
		want(t, what, keptBy(c, 2*second), "")
		if !c.shutdown.over(at(20*second), false, c.mustKeep()) {
			t.Errorf("%s: the guard stays longer than the lease", what)
		}
	}
}

// A store that does not answer is asked again after T/40, and that is said once.
func TestKeepingGoesOnWhenTheStoreFails(t *testing.T) {
	c := deadWorker()
	keptBy(c, 0)
	want(t, "the first failure", answered(c, 0, errors.New("away")), "note")
	want(t, "after T/40", keptBy(c, second/2), "keep s map[g/a:true g/b:true h/remote:true]")
	want(t, "the second failure", answered(c, second/2, errors.New("away")), "")
	keptBy(c, second)
	want(t, "success", answered(c, second, nil), "")
	keptBy(c, 3*second)
	want(t, "another failure", answered(c, 3*second, errors.New("away")), "note")
}

// An alarm says of a process that may not be signalled that this is why it does not die, and names it.
func TestAlarmsNameWhatMayNotBeSignalled(t *testing.T) {
	c := deadWorker()
	effects := c.commands.probed(1, []int{10, 11}, false)
	alarm, ok := effects[0].(send).body.(wire.Alarm)
	if !ok || !alarm.Refused || fmt.Sprint(alarm.PIDs) != "[10]" {
		t.Errorf("%+v", effects)
	}
	all := commandsOf(1)
	all.killAll(false, at(0))
	if alarm := all.probed(1, []int{10}, false)[0].(send).body.(wire.Alarm); alarm.Refused {
		t.Errorf("%+v, and nothing was refused", alarm)
	}
}

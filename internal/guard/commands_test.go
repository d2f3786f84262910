package guard

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/elect"
)

// exit is a wait status.
func exit(code int) unix.WaitStatus { return unix.WaitStatus(code << 8) }

// killed is the wait status after SIGKILL.
const killed = unix.WaitStatus(unix.SIGKILL)

func begin(id uint64, key, session string, token int64) wire.Start {
	return wire.Start{ID: id, Key: elect.Key(key), Session: session, Token: token}
}

// commandsOf has commands 1, 2, … of session s run as processes 10, 20, …, with a lease of 20 s.
func commandsOf(n int) *commands {
	t := newCommands()
	for id := uint64(1); id <= uint64(n); id++ {
		t.started(begin(id, string(elect.NewKey("g", letter(id))), "s", 1), int(id)*10, "")
	}
	return t
}

// see is what the loop does after reaping: it looks at strangers if anything hangs on that.
func see(all *commands, full []uint64, strangers ...process.Proc) string {
	if _, wanted := all.wantsChildList(); !wanted {
		return "unwanted"
	}
	l := childList{populated: map[uint64]bool{}}
	for _, p := range strangers {
		l.strangers = append(l.strangers, child{Proc: p})
	}
	for _, id := range full {
		l.populated[id] = true
	}
	return drawn(all.listed(l))
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// On the normal path nothing walks through the processes: the guard's own children and one signal 0 to the group are
// enough.
func TestGoneIsKnownWithoutAScan(t *testing.T) {
	all := commandsOf(2)
	want(t, "stop", drawn(all.stop(1, unix.SIGTERM, 10*second, at(0))), "SIGTERM to group 10")
	want(t, "exit", drawn(all.reaped(10, unix.WaitStatus(unix.SIGTERM), at(0))), "exited 1: -1, signal 15")
	if all.scanDue(at(0)) {
		t.Error("a scan comes before the list")
	}
	want(t, "list", see(all, nil), "gone 1")
	if all.scanDue(at(second)) {
		t.Error("a scan comes after it")
	}
	if all.mayStart(3, "g/a", "s") != nil || all.mayStart(3, "g/b", "s") == nil || all.mayStart(2, "g/c", "s") == nil {
		t.Error("the key is free once its last run is gone, and not before")
	}
	want(t, "ended by itself", drawn(all.reaped(20, exit(3), at(0))), "exited 2: 3, signal 0")
	want(t, "list", see(all, nil), "gone 2")
	want(t, "nothing hangs on it", see(all, nil), "unwanted")
}

func TestWhatAChildListDecides(t *testing.T) {
	inGroup := process.Proc{PID: 11, Parent: 1, Group: 10}
	ofOther := process.Proc{PID: 21, Parent: 1, Group: 20}
	hidden := process.Proc{PID: 31, Parent: 1, Group: 31}
	for _, c := range []struct {
		name      string
		strangers []process.Proc
		full      []uint64
		want      string
	}{
		{"nothing left", nil, nil, "gone 1"},
		{"one of its group", []process.Proc{inGroup}, []uint64{1}, ""},
		{"one of another's group", []process.Proc{ofOther}, nil, "gone 1"},
		{"one of unknown origin", []process.Proc{hidden}, nil, ""},
		{"the group is not empty", nil, []uint64{1}, ""},
	} {
		all := commandsOf(2)
		all.reaped(10, exit(0), at(0))
		want(t, c.name, see(all, c.full, c.strangers...), c.want)
		want(t, c.name+", and nothing was reaped since", see(all, c.full, c.strangers...), "unwanted")
		if due := all.scanDue(at(leastGap)); due != (c.want == "") {
			t.Errorf("%s: scan due %v", c.name, due)
		}
	}
}

func TestStop(t *testing.T) {
	all := commandsOf(1)
	want(t, "unknown", drawn(all.stop(7, unix.SIGTERM, 0, at(0))), "")
	want(t, "stop", drawn(all.stop(1, unix.SIGTERM, 10*second, at(0))), "SIGTERM to group 10")
	want(t, "again", drawn(all.stop(1, unix.SIGTERM, 60*second, at(0))), "")
	want(t, "another signal", drawn(all.stop(1, unix.SIGINT, 60*second, at(0))), "SIGINT to group 10")
	want(t, "before the kill", drawn(all.advance(at(10*second-1))), "")
	if left, ok := all.next(at(9 * second)); !ok || left != second {
		t.Errorf("next in %v, %v", left, ok)
	}
	// The group is spared until a scan has seen what is below it.
	want(t, "the grace is used up", drawn(all.advance(at(10*second))), "")
	if !all.scanDue(at(10 * second)) {
		t.Fatal("no scan")
	}
	child := process.Proc{PID: 11, Parent: 10, Group: 11}
	leader := process.Proc{PID: 10, Parent: 1, Group: 10}
	found := ownership{owned: map[uint64][]process.Proc{1: {leader, child}}}
	got := drawn(all.scanned(found, at(10*second)))
	want(t, "scan", got, "SIGKILL to group 10; SIGKILL to [10 11]")
	want(t, "a scan that hangs", drawn(all.advance(at(10*second+all.lease/50+1))), "SIGKILL to group 10")
	want(t, "exit", drawn(all.reaped(10, unix.WaitStatus(unix.SIGKILL), at(11*second))), "exited 1: -1, signal 9")
	want(t, "its child lives", see(all, nil, process.Proc{PID: 11, Parent: 1, Group: 11}), "")
	all.reaped(11, exit(0), at(11*second))
	want(t, "its child is reaped", see(all, nil), "gone 1")
}

func TestStopAsksWhatLeftTheGroupOnce(t *testing.T) {
	all := commandsOf(1)
	all.stop(1, unix.SIGTERM, 10*second, at(0))
	all.reaped(10, exit(0), at(0))
	left := map[uint64][]process.Proc{1: {{PID: 11, Group: 10}, {PID: 12, Group: 12}}}
	found := ownership{owned: left, reaps: 1}
	want(t, "first", drawn(all.scanned(found, at(0))), "SIGTERM to [12]")
	want(t, "second", drawn(all.scanned(found, at(0))), "")
	all.advance(at(10 * second))
	want(t, "the grace is used up", drawn(all.scanned(found, at(0))), "SIGKILL to [11 12]")
}

func TestScanDecidesOnlyWhenItIsCertain(t *testing.T) {
	all := commandsOf(1)
	all.reaped(10, exit(0), at(0))
	nothing := func(reaps uint64, uncertain bool) string {
		s := ownership{unknownZombie: uncertain, reaps: reaps}
		return drawn(all.scanned(s, at(0)))
	}
	want(t, "something was reaped meanwhile", nothing(0, false), "")
	want(t, "a zombie may have been its", nothing(1, true), "")
	want(t, "certain", nothing(1, false), "gone 1")
}

// A control group is killed at once: no scan has to see first what is below the command. While something lives in it
// the command is not gone, whatever else was seen.
func TestCommandInAControlGroup(t *testing.T) {
	all := newCommands()
	all.started(begin(1, "g/a", "s", 1), 10, "1.1.g_a")
	want(t, "stop", drawn(all.stop(1, unix.SIGTERM, 10*second, at(0))), "SIGTERM to group 10")
	got := drawn(all.advance(at(10 * second)))
	want(t, "the grace is used up", got, "SIGKILL to group 10; kill 1.1.g_a")
	all.reaped(10, exit(0), at(10*second))
	want(t, "one of it lives", see(all, []uint64{1}), "")
	found := ownership{populated: map[uint64]bool{1: true}, reaps: 1}
	want(t, "a scan that saw nothing", drawn(all.scanned(found, at(11*second))), "kill 1.1.g_a")
	all.listStale = true
	moved := process.Proc{PID: 31, Parent: 1, Group: 31}
	want(t, "empty, but one was moved out", see(all, nil, moved), "")
	all.listStale = true
	want(t, "empty", see(all, nil), "gone 1; remove 1.1.g_a")

	all.started(begin(2, "g/b", "s", 2), 20, "2.2.g_b")
	want(t, "ended by itself", drawn(all.reaped(20, exit(0), at(0))), "exited 2: 0, signal 0; kill 2.2.g_b")
	got = drawn(all.scanned(ownership{reaps: 2}, at(0)))
	want(t, "a scan that saw nothing", got, "kill 2.2.g_b; gone 2; remove 2.2.g_b")
}

// Where a child of the guard is in a run's control group, nothing else says whose it is.
func TestChildListKnowsAControlGroup(t *testing.T) {
	all := newCommands()
	all.started(begin(1, "g/a", "s", 1), 10, "1.1.g_a")
	all.started(begin(2, "g/b", "s", 1), 20, "2.1.g_b")
	all.reaped(10, exit(0), at(0))
	hidden := process.Proc{PID: 31, Parent: 1, Group: 31}
	l := childList{strangers: []child{{hidden, "2.1.g_b"}}}
	want(t, "another's", drawn(all.listed(l)), "gone 1; remove 1.1.g_a")
	all.reaped(20, exit(0), at(0))
	want(t, "its own", drawn(all.listed(l)), "")
}

func TestCommandsWhoseLeaseRanOut(t *testing.T) {
	all := commandsOf(1)
	all.started(begin(2, "g/x", "other", 1), 20, "")
	step := func(before, phase phase) string {
		return drawn(all.leaseRanOut(phaseChange{"s", before, phase}, at(0)))
	}
	want(t, "a little after D", step(phaseCancel, phaseStop), "SIGTERM to group 10")
	want(t, "at 0.8 T", step(phaseStop, phaseKill), "SIGKILL to group 10; note")
	want(t, "at X", step(phaseKill, phaseGone), "SIGKILL to group 10; probe 1 [10] past X true")
	want(t, "alive", drawn(all.probed(1, []int{10}, true)), "alarm g/a [10] past X true; note")
	want(t, "alive still", drawn(all.probed(1, []int{10}, true)), "")
	found := ownership{stray: []process.Proc{{PID: 31}}}
	want(t, "strays go, too", drawn(all.scanned(found, at(0))), "SIGKILL to group 10; SIGKILL to [31]")
	frozen := commandsOf(1)
	got := drawn(frozen.leaseRanOut(phaseChange{"s", phaseHeld, phaseGone}, at(0)))
	want(t, "thawed past X", got, "SIGKILL to group 10; note")
}

func TestStraysAreSparedUntilADeadline(t *testing.T) {
	stray := ownership{stray: []process.Proc{{PID: 31}}, ownerless: []process.Proc{{PID: 41}}}
	all := commandsOf(1)
	want(t, "an ended task's orphan is killed", drawn(all.scanned(stray, at(0))), "SIGKILL to [41]")
	want(t, "a hard stop", drawn(all.killAll(false, at(0))), "SIGKILL to group 10")
	want(t, "spares it", drawn(all.scanned(stray, at(0))), "SIGKILL to group 10; SIGKILL to [41]")
	want(t, "the worker's death", drawn(all.killAll(true, at(0))), "SIGKILL to group 10")
	for range 2 { // for good: another may come to the guard as an orphan at any time
		want(t, "ends it", drawn(all.scanned(stray, at(0))), "SIGKILL to group 10; SIGKILL to [41]; SIGKILL to [31]")
		all.scanned(ownership{}, at(0))
	}
}

// An alarm names what does not die. On a busy machine the scan that finds nothing may be late: that is none.
func TestAlarm(t *testing.T) {
	const killed = 100 * second
	for _, c := range []struct {
		name        string
		reaped      bool
		left, alive []int
		want        string
		first, then string
	}{
		{"the scan is late", true, nil, nil, "probe 1 [] past X false", "note", ""},
		{"what it found has gone since", true, []int{11}, nil, "probe 1 [11] past X false", "note", ""},
		{
			"it left one", true,
			[]int{11},
			[]int{11},
			"probe 1 [11] past X false", "alarm g/a [11] past X false; note", "",
		},
		{
			"the command itself does not die", false,
			[]int{10},
			[]int{10},
			"SIGKILL to group 10; probe 1 [10] past X false", "alarm g/a [10] past X false; note", "",
		},
	} {
		all := commandsOf(1)
		all.stop(1, unix.SIGKILL, 0, at(killed))
		if c.reaped {
			all.reaped(10, exit(0), at(killed))
		}
		for _, pid := range c.left {
			all.byID[1].traces.left = append(all.byID[1].traces.left, process.Proc{PID: pid})
		}
		want(t, c.name+" at first", drawn(all.advance(at(killed+all.lease/50))), "")
		want(t, c.name, drawn(all.advance(at(killed+2*time.Second+1))), c.want)
		want(t, c.name+", the answer", drawn(all.probed(1, c.alive, false)), c.first)
		want(t, c.name+", only once", drawn(all.probed(1, c.alive, false)), c.then)
	}
}

func letter(id uint64) string { return string(rune('a' + id - 1)) }

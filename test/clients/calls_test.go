package clients_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/application"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/test/seeds"
)

// stops is how long work in the groups slow and async goes on for once it is cancelled, less what clocks may differ by.
const stops = 450 * time.Millisecond

var cases = map[string]func(t *testing.T, n *network, a *app){
	"keys come and go":           comeAndGo,
	"values":                     keepValues,
	"a value of a lost lease":    loseValue,
	"an owner":                   findOwner,
	"a status":                   showStatus,
	"a port":                     usePort,
	"slow stops":                 stopSlowly,
	"done":                       isDone,
	"again":                      runAgain,
	"the lease is lost":          loseTheLease,
	"a replica restarts":         restartReplica,
	"stuck":                      getStuck,
	"busy":                       beBusy,
	"SIGTERM":                    drain,
	"SIGTERM without a replica":  drainAlone,
	"frozen":                     freeze,
	"late replies":               replyLate,
	"the list of runs is lost":   loseList,
	"an older reply is repeated": repeatReply,
	"an answer is no reply":      answerGarbled,
	"replies are there twice":    answerTwice,
	"calls arrive twice":         callTwice,
	"a network that loses":       loseAtRandom,
	"ten thousand keys":          holdMany,
	"another application":        startAnother,
}

func TestLibraries(t *testing.T) {
	for _, of := range languages {
		t.Run(of.name, func(t *testing.T) {
			need(t, of.programs...)
			command := of.command(t)
			t.Run("slots", func(t *testing.T) {
				t.Parallel()
				args := append(slices.Clone(command[1:]), clients(t, "testdata/slots.json"))
				if out := run(t, t.TempDir(), command[0], args...); out != "slots agree\n" {
					t.Error(out)
				}
			})
			for name, test := range cases {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					n, address := newNetwork(t)
					test(t, n, start(t, of, command, address))
				})
			}
		})
	}
}

// TestAsyncio: with run_async coroutines run in the event loop of the caller, and SIGTERM drains.
func TestAsyncio(t *testing.T) {
	need(t, "python3")
	n, address := newNetwork(t)
	python := languages[0]
	a := start(t, python, append(python.command(t), "async"), address)
	k := n.hub.give("async/one", 1, nil)
	a.says("begin async/one 1")
	k.stopsSlowly(t)
	a.says("stopping async/one 1", "end async/one 1")
	drain(t, n, a)
}

// TestCancelledError: a function that lets a cancellation through which is not that of its lease begins again.
func TestCancelledError(t *testing.T) {
	need(t, "python3")
	n, address := newNetwork(t)
	python := languages[0]
	a := start(t, python, python.command(t), address)
	for _, name := range []string{"cancels/one", "cancels in a thread/one"} {
		k := n.hub.give(name, 1, nil)
		a.says("begin "+name+" 1", "begin "+name+" 1")
		k.take()
	}
}

// TestSystemExit: work in Java may end the process. All keys are handed over first, its own included.
func TestSystemExit(t *testing.T) {
	java := languages[2]
	need(t, java.programs...)
	n, address := newNetwork(t)
	a := start(t, java, java.command(t), address)
	other := n.hub.give("work/one", 1, nil)
	a.says("begin work/one 1")
	exits := n.hub.give("exits/one", 2, nil)
	a.says("begin exits/one 2")
	n.notReady(t)
	exits.take()
	other.take()
	a.says("end work/one 1")
	a.exits(3)
}

// always has the same become of each call.
func (n *network) always(f fault) {
	n.set(func() { n.fault = func(application.Request) fault { return f } })
}

func comeAndGo(_ *testing.T, n *network, a *app) {
	one := n.hub.give("work/größe 1/2 %?#👍", 1, nil)
	a.says("begin work/größe 1/2 %?#👍 1")
	two := n.hub.give("work/two", 1_795_000_000_001, nil)
	a.says("begin work/two 1795000000001")
	one.take()
	a.says("end work/größe 1/2 %?#👍 1")
	one = n.hub.give("work/größe 1/2 %?#👍", 3, nil)
	a.says("begin work/größe 1/2 %?#👍 3")
	two.take()
	a.says("end work/two 1795000000001")
	one.take()
	a.says("end work/größe 1/2 %?#👍 3")
}

func answerTwice(t *testing.T, n *network, a *app) {
	t.Helper()
	n.always(saidTwice)
	comeAndGo(t, n, a)
}

// answerGarbled: what is no reply, as from another server at that port, changes nothing.
func answerGarbled(t *testing.T, n *network, a *app) {
	t.Helper()
	k := n.hub.give("work/one", 1, nil)
	a.says("begin work/one 1")
	n.always(garbled)
	n.calls(t, 3)
	n.always(none)
	comeAndGo(t, n, a)
	k.take()
	a.says("end work/one 1")
}

func callTwice(t *testing.T, n *network, a *app) {
	t.Helper()
	n.always(twice)
	stopSlowly(t, n, a)
}

func keepValues(_ *testing.T, n *network, a *app) {
	value := &store{}
	for token, before := range []string{"-", "é", "éé"} {
		k := n.hub.give("values/größe 1/2 %?#👍", int64(token+1), value)
		a.says(fmt.Sprintf("begin values/größe 1/2 %%?#👍 %d %s", token+1, before))
		k.take()
		a.says(fmt.Sprintf("end values/größe 1/2 %%?#👍 %d", token+1))
	}
}

func loseValue(_ *testing.T, n *network, a *app) {
	k := n.hub.give("lost/one", 1, &store{err: elect.ErrLeaseLost})
	a.says("lost")
	k.take()
}

func findOwner(_ *testing.T, n *network, a *app) {
	k := n.hub.give("owner/größe/1", 1, nil)
	a.says("owner größe 127.0.0.1:9000 7 -")
	k.take()
}

// showStatus: what the application says of itself stands in every call, until it says something else. So does a
// load, of whatever type of number. One that the replica would refuse, with all of the call, is refused at once.
func showStatus(t *testing.T, n *network, a *app) {
	t.Helper()
	shows := func(want map[string]string) {
		t.Helper()
		limit := time.Now().Add(wait)
		for ; !maps.Equal(n.hub.Status().Reported, want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("its status is %v, want %v", n.hub.Status().Reported, want)
			}
		}
	}
	k := n.hub.give("status/one", 1, nil)
	if line := a.line("load -1"); !strings.HasPrefix(line, "load -1") {
		t.Errorf("it says %q", line)
	}
	shows(map[string]string{"version": "é 1", "lag": "12"})
	if load := n.hub.load.Load(); load != 1.5 {
		t.Errorf("its load is %v, want 1.5", load)
	}
	k.take()
	shows(map[string]string{"version": "é 2"})
	n.calls(t, 3)
	shows(map[string]string{"version": "é 2"})
}

// usePort: over TCP it is the same.
func usePort(t *testing.T, _ *network, a *app) {
	t.Helper()
	n, _ := newNetwork(t)
	comeAndGo(t, n, start(t, a.of, a.cmd.Args, n.listen(t, "tcp", "127.0.0.1:0")))
}

// stopSlowly: a key is not free while its work goes on, a coroutine's cleanup included.
func stopSlowly(t *testing.T, n *network, a *app) {
	t.Helper()
	for _, name := range []string{"slow/one", "async/one"} {
		k := n.hub.give(name, 1, nil)
		a.says("begin " + name + " 1")
		k.stopsSlowly(t)
		a.says("stopping "+name+" 1", "end "+name+" 1")
	}
}

func (k *key) stopsSlowly(t *testing.T) {
	t.Helper()
	began := time.Now()
	k.take()
	if took := time.Since(began); took < stops {
		t.Errorf("the key was free after %v, and its work went on for 500 ms", took)
	}
}

func isDone(_ *testing.T, n *network, a *app) {
	k := n.hub.give("done/one", 1, nil)
	a.says("begin done/one 1")
	next := n.hub.give("work/next", 2, nil) // meanwhile the one that is done is not begun again
	a.says("begin work/next 2")
	n.set(func() { n.delay = *hard * 9 / 20 }) // nor once a slow replica had the others cancelled
	a.says("end work/next 2")
	n.set(func() { n.delay = 0 })
	a.says("begin work/next 2")
	last := n.hub.give("work/last", 3, nil)
	a.says("begin work/last 3")
	k.take()
	next.take()
	a.says("end work/next 2")
	last.take()
	a.says("end work/last 3")
}

func runAgain(_ *testing.T, n *network, a *app) {
	k := n.hub.give("again/one", 1, nil)
	a.says("begin again/one 1", "begin again/one 1")
	k.take()
}

// loseTheLease: what runs is cancelled at three quarters of the validity, and runs again once the lease is back.
func loseTheLease(t *testing.T, n *network, a *app) {
	t.Helper()
	k := n.hub.give("work/one", 1, nil)
	a.says("begin work/one 1")
	began := time.Now()
	n.hub.renews(false)
	a.says("end work/one 1")
	if took := time.Since(began); took < *hard/2 {
		t.Errorf("it was cancelled after %v of %v", took, *hard)
	}
	k.free()
	n.hub.renews(true)
	k = n.hub.give("work/one", 2, nil)
	a.says("begin work/one 2")
	k.take()
}

// restartReplica: nothing of the old session runs when what the new one assigns begins.
func restartReplica(t *testing.T, n *network, a *app) {
	t.Helper()
	old := n.hub.give("slow/one", 1, nil)
	a.says("begin slow/one 1")
	now := newHub(t, "two")
	k := now.give("slow/one", 2, nil)
	n.set(func() { n.hub = now })
	a.says("stopping slow/one 1", "end slow/one 1", "begin slow/one 2")
	k.stopsSlowly(t)
	old.stop(elect.ErrLeaseLost)
	old.free()
}

// getStuck: a process whose work does not end exits when its validity is over.
func getStuck(_ *testing.T, n *network, a *app) {
	k := n.hub.give("stuck/one", 1, nil)
	a.says("begin stuck/one 1")
	n.hub.renews(false)
	a.exits(a.of.stuck...)
	k.free()
}

// beBusy: so does one whose work computes, on the event loop where there is one.
func beBusy(_ *testing.T, n *network, a *app) {
	k := n.hub.give("busy/one", 1, nil)
	a.says("begin busy/one 1")
	n.hub.renews(false)
	a.exits(a.of.stuck...)
	k.free()
}

func drain(t *testing.T, n *network, a *app) {
	t.Helper()
	k := n.hub.give("work/one", 1, nil)
	a.says("begin work/one 1")
	a.signal(syscall.SIGTERM)
	n.notReady(t)
	k.take()
	a.says("end work/one 1")
	a.says(a.of.over...)
	a.exits(a.of.exits)
}

// drainAlone: without a replica it ends once its work has been cancelled.
func drainAlone(_ *testing.T, n *network, a *app) {
	k := n.hub.give("work/one", 1, nil)
	a.says("begin work/one 1")
	n.always(lost)
	a.signal(syscall.SIGTERM)
	a.says("end work/one 1")
	a.says(a.of.over...)
	a.exits(a.of.exits)
	k.free()
}

// freeze: a process that was frozen for longer than its validity exits as soon as it runs again.
func freeze(_ *testing.T, n *network, a *app) {
	k := n.hub.give("stuck/one", 1, nil)
	a.says("begin stuck/one 1")
	a.signal(syscall.SIGSTOP)
	k.free()
	a.signal(syscall.SIGCONT)
	a.exits(a.of.stuck...)
}

// replyLate: a reply that is held back for longer than it is valid starts nothing.
func replyLate(t *testing.T, n *network, a *app) {
	t.Helper()
	n.set(func() { n.delay = *hard + time.Second })
	k := n.hub.give("work/one", 1, nil)
	n.calls(t, 2)
	k.stop(elect.ErrReleased)
	n.set(func() { n.delay = 0 })
	k.free()
	next := n.hub.give("work/next", 2, nil)
	a.says("begin work/next 2")
	next.take()
}

// loseList: a list that did not arrive is not taken for one that did.
func loseList(t *testing.T, n *network, a *app) {
	t.Helper()
	loses := true
	n.set(func() {
		n.fault = func(call application.Request) fault {
			if loses && len(call.Running) > 0 {
				loses = false
				return lost
			}
			return none
		}
	})
	k := n.hub.give("slow/one", 1, nil)
	a.says("begin slow/one 1")
	k.stopsSlowly(t)
}

// repeatReply: a reply that assigned a key does not have it begin again once the key was given back.
func repeatReply(_ *testing.T, n *network, a *app) {
	one := n.hub.give("work/one", 1, nil)
	a.says("begin work/one 1")
	n.set(func() { n.keep = "work/two" })
	two := n.hub.give("work/two", 2, nil)
	a.says("begin work/two 2")
	one.take()
	a.says("end work/one 1")
	repeats := 3
	n.set(func() {
		n.fault = func(application.Request) fault {
			if repeats--; repeats >= 0 {
				return repeated
			}
			return none
		}
	})
	two.take()
	a.says("end work/two 2")
	three := n.hub.give("work/three", 3, nil)
	a.says("begin work/three 3")
	three.take()
}

// loseAtRandom: calls and replies are lost, there twice and in another order, and no key is free too early.
func loseAtRandom(t *testing.T, n *network, a *app) {
	t.Helper()
	random := rand.New(rand.NewPCG(seeds.Of(t, 0), 0))
	faults := []fault{none, none, none, lost, unheard, twice, afterNext}
	n.set(func() {
		n.fault = func(application.Request) fault { return faults[random.IntN(len(faults))] }
	})
	for token := int64(1); token <= 5; token++ {
		k := n.hub.give("slow/one", token, nil)
		a.saysAtLast(fmt.Sprintf("begin slow/one %d", token))
		k.stopsSlowly(t)
	}
}

// startAnother: a second application gets nothing until the first is gone and its validity over.
func startAnother(t *testing.T, n *network, a *app) {
	t.Helper()
	one := n.hub.give("work/one", 1, nil)
	a.says("begin work/one 1")
	another := start(t, a.of, a.cmd.Args, environment(a.cmd.Env, "SHARDCTL_APP"))
	time.Sleep(*hard + time.Second) // longer than the first may be silent
	select {
	case line := <-a.lines:
		t.Errorf("the first says %q", line)
	case line := <-another.lines:
		t.Errorf("the second says %q", line)
	default:
	}
	a.signal(syscall.SIGKILL)
	one.free()
	two := n.hub.give("work/two", 2, nil)
	another.says("begin work/two 2")
	two.take()
}

func environment(env []string, name string) (value string) {
	for _, e := range env {
		if v, found := strings.CutPrefix(e, name+"="); found {
			value = v
		}
	}
	return value
}

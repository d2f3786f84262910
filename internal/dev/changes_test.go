package dev

import (
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// scenario makes views one after the other, 200 ms apart.
type scenario struct {
	t  *testing.T
	c  *changes
	v  View
	at time.Duration
}

// begin is a cluster of three with six tasks, two on each, of which all was reported.
func begin(t *testing.T) *scenario {
	t.Helper()
	s := &scenario{t: t, c: newChanges(epoch), v: View{Options: Options{Replicas: 3, Tasks: 6, Cap: 3}}}
	for i, name := range []string{"r1", "r2", "r3"} {
		s.v.Replicas = append(
			s.v.Replicas, Replica{Name: name, State: Starting, Guard: 10 * (i + 1), Worker: 10*(i+1) + 1},
		)
	}
	s.expect()
	s.v.Seen = true
	s.each(func(r *Replica) { r.State = Live })
	s.owners("112233", api.Starting)
	s.expect("r1 started: guard 10, worker 11", "r2 started: guard 20, worker 21", "r3 started: guard 30, worker 31")
	s.owners("112233", api.Running)
	s.expect()
	s.expect("6 of 6 tasks run: r1 2, r2 2, r3 2 (0.8 s after the start)")
	s.expect()
	return s
}

func (s *scenario) each(change func(*Replica)) {
	s.v.Replicas = slices.Clone(s.v.Replicas)
	for i := range s.v.Replicas {
		change(&s.v.Replicas[i])
	}
}

func (s *scenario) state(name string, state State, why string) {
	s.each(func(r *Replica) {
		if r.Name == name {
			r.State, r.Why = state, why
			if state.Gone() {
				r.Ended = epoch.Add(s.at)
			}
		}
	})
}

// owners says by numbers who owns each task, "-" for none.
func (s *scenario) owners(numbers string, state api.TaskState) {
	s.v.Tasks = nil
	for i, number := range numbers {
		t := Task{Key: string(rune('a' + i)), Owner: "r" + string(number), State: state}
		if number == '-' {
			t.Owner, t.State, t.Full = "", api.Unassigned, true
		}
		s.v.Tasks = append(s.v.Tasks, t)
	}
}

func (s *scenario) expect(want ...string) {
	s.t.Helper()
	s.at += 200 * time.Millisecond
	v := s.v
	v.Now = epoch.Add(s.at)
	if got := s.c.step(&v); !slices.Equal(got, want) {
		s.t.Errorf("at %v: got %q, want %q", s.at, got, want)
	}
}

func TestChangesOfADeath(t *testing.T) {
	s := begin(t)
	s.state("r3", Dead, "signal: killed")
	s.expect("r3 died: signal: killed")
	s.expect() // the store does not know it yet: no spread to report
	s.owners("112212", api.Starting)
	s.expect()
	s.owners("112212", api.Running)
	s.expect("2 tasks of r3 run elsewhere after 0.8 s")
	s.expect("6 of 6 tasks run: r1 3, r2 3")
	s.expect()
}

func TestChangesOfADeathWithoutFreeCapacity(t *testing.T) {
	s := begin(t)
	s.state("r3", Dead, "signal: killed")
	s.expect("r3 died: signal: killed")
	s.owners("11221-", api.Running)
	s.v.Problems = []Problem{{Reason: "NoCapacity", Text: "no capacity", Count: 2}}
	s.expect()
	s.expect("1 of 2 tasks of r3 run elsewhere, there is no free capacity for 1", "5 of 6 tasks run: r1 3, r2 2")
	for range 3 {
		s.expect()
	}
	s.expect("problem NoCapacity: no capacity (and 1 more)")
	s.v.Problems = nil
	s.expect("no longer NoCapacity")
}

func TestChangesOfAnApplication(t *testing.T) {
	s := begin(t)
	is := func(a *api.Application) {
		s.each(func(r *Replica) {
			if r.Name == "r2" {
				r.App = a
			}
		})
	}
	is(&api.Application{PID: 7, Message: "none has called"})
	s.expect()
	is(&api.Application{ID: "one", PID: 7, Ready: true})
	s.expect("the application of r2 is ready: pid 7")
	s.expect()
	is(&api.Application{Message: "its command has ended: exit status 1"})
	s.expect("the application of r2 is not ready: its command has ended: exit status 1")
	is(&api.Application{ID: "two", PID: 8, Ready: true})
	s.expect("the application of r2 is ready: pid 8")
	is(&api.Application{ID: "three", PID: 9, Ready: true})
	s.expect("the application of r2 is ready: pid 9")
	is(nil)
	s.state("r2", Dead, "signal: killed")
	s.expect("r2 died: signal: killed")
}

func TestChangesOfTasksThatDoNotCome(t *testing.T) {
	s := begin(t)
	s.state("r2", Dead, "it failed")
	s.expect("r2 died: it failed")
	s.owners("111233", api.Running)
	for s.at < 11*time.Second {
		s.expect()
	}
	s.at = 12 * time.Second
	s.expect("1 of 2 tasks of r2 run elsewhere, the rest does not after 11 s", "5 of 6 tasks run: r1 3, r3 2")
}

func TestChangesOfALeaving(t *testing.T) {
	s := begin(t)
	s.state("r3", Leaving, "")
	s.expect("r3 hands its tasks over")
	s.owners("112212", api.Running)
	s.expect("2 tasks of r3 run elsewhere after 0.2 s")
	s.state("r3", Left, "")
	s.expect("r3 left", "6 of 6 tasks run: r1 3, r2 3")
}

func TestChangesOfAFrozenReplica(t *testing.T) {
	s := begin(t)
	s.state("r3", Silent, "")
	s.expect("r3 sends no heartbeat and is abandoned (guard 30, worker 31)")
	s.owners("112212", api.Running)
	s.expect("2 tasks of r3 run elsewhere after 0.2 s")
	s.state("r3", Live, "")
	s.expect("r3 is back", "6 of 6 tasks run: r1 3, r2 3, r3 0")
	s.owners("112233", api.Running)
	s.expect()
	s.expect("2 tasks moved: r1 -1, r2 -1, r3 +2", "6 of 6 tasks run: r1 2, r2 2, r3 2")
}

func TestChangesOfOneMore(t *testing.T) {
	s := begin(t)
	s.v.Replicas = append(slices.Clone(s.v.Replicas), Replica{Name: "r4", State: Live, Guard: 40})
	s.expect("r4 started: guard 40", "6 of 6 tasks run: r1 2, r2 2, r3 2, r4 0")
	s.owners("11223-", api.Running) // between two owners
	s.expect()
	s.owners("112234", api.Starting)
	s.expect()
	s.expect() // nothing runs yet
	s.owners("112234", api.Running)
	s.expect()
	s.expect("1 task moved: r3 -1, r4 +1", "6 of 6 tasks run: r1 2, r2 2, r3 1, r4 1")
}

func TestChangesKeepQuietWhatPasses(t *testing.T) {
	s := begin(t)
	s.v.Problems = []Problem{{Reason: "NoHeadroom", Text: "tight", Count: 1}}
	s.expect()
	s.expect()
	s.v.Problems = nil
	s.expect()
	s.v.Problems = []Problem{{Reason: "NoHeadroom", Text: "tight", Count: 1}}
	for range 5 { // counted from its return
		s.expect()
	}
	s.expect("problem NoHeadroom: tight")
}

func TestSpreadOfManyReplicas(t *testing.T) {
	v := &View{Options: Options{Tasks: 23}}
	for i := range 11 {
		name := string(rune('a' + i))
		v.Replicas = append(v.Replicas, Replica{Name: name, State: Live})
		v.Tasks = append(v.Tasks, Task{Key: name + "1", Owner: name}, Task{Key: name + "2", Owner: name})
	}
	c := newChanges(epoch)
	if got := c.spreadOf(v); got != "2 on each of 11 replicas" {
		t.Errorf("got %q", got)
	}
	v.Tasks = append(v.Tasks, Task{Key: "x", Owner: "a"})
	if got := c.spreadOf(v); got != "2 to 3 on each of 11 replicas" {
		t.Errorf("got %q", got)
	}
}

// A replica that lost its lease is started again, and says so each time.
func TestChangesReplicaStartedAgain(t *testing.T) {
	s := begin(t)
	again := func(is bool) {
		s.each(func(r *Replica) {
			if r.Name == "r3" {
				r.Again = is
			}
		})
	}
	s.state("r3", Dead, "its lease ran out")
	again(true)
	s.expect("r3 died: its lease ran out; it is started again in 3s")
	if _, over := ended(&View{Replicas: s.v.Replicas[2:]}); over {
		t.Error("a replica that is started again counts as the end")
	}
	again(false)
	s.state("r3", Starting, "")
	s.owners("1122--", api.Running)
	s.expect()
	s.expect("4 of 6 tasks run: r1 2, r2 2")
	s.state("r3", Live, "")
	s.owners("112233", api.Running)
	s.expect("r3 started: guard 30, worker 31")
	s.expect("6 of 6 tasks run: r1 2, r2 2, r3 2")

	s.state("r3", Dead, "its lease ran out")
	again(true)
	s.expect("r3 died: its lease ran out; it is started again in 3s")
	again(false)
	s.state("r3", Dead, "no memory for a process")
	s.expect("r3 cannot be started again: no memory for a process")
}

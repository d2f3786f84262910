package elect_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
	"github.com/shardctl/shardctl/test/suites"
)

// play disturbs the cluster as the script says, heals it, and looks.
func (s *sim) play(c script) {
	time.Sleep(c.first)
	for _, step := range c.steps {
		s.disturb(step)
		time.Sleep(step.rest)
		s.nothingOld()
	}
	s.heal()
	time.Sleep(thawLimit) // a replica that was frozen for too long notices, and goes
	begin := time.Now()
	for s.healed() != "" {
		if time.Since(begin) > 3*lease {
			s.fail(
				"not every key runs after all was healed", "%v after: %s\n%s", time.Since(begin), s.healed(), s.views(),
			)
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if n := s.started(); n < simKeys {
		s.fail("hardly anything ran", "only %d starts", n)
	}
	if s.unended.Load() || s.running() < len(s.nodes) {
		time.Sleep(2 * lease) // the others see to the sessions of those who died, or could not say goodbye
	}
	for _, n := range s.nodes {
		n.cancel()
	}
	for _, n := range s.nodes {
		n.done.Wait()
	}
	if !s.broken {
		s.left()
	}
}

// heal ends all faults, and sees to it that somebody is alive who has free capacity for everything.
func (s *sim) heal() {
	s.log("healed")
	s.list = simList{revision: s.list.revision + 1, first: s.list.first, limit: simKeys}
	s.start("")
	for _, n := range s.nodes {
		n.thaw()
		n.set("")
		list := s.list
		n.done.Go(func() { s.declare(s.t.Context(), n, list) })
	}
}

// simulation is a property for rapid: no script makes anything go wrong. What goes wrong depends a little on the order
// in which goroutines run. So once a script has failed it, and each shorter one, is tried several times, for the same
// thing to go wrong. rapid releases on a failure that comes back in other words.
func simulation(t *testing.T, hands, broken bool, failed func(script, *sim)) func(*rapid.T) {
	t.Helper()
	tries, same := 1, ""
	return func(rt *rapid.T) {
		c := drawScript(rt, hands)
		for range tries {
			s := playOnce(t, c, broken)
			if len(s.wrong) == 0 || same != "" && !slices.Contains(s.wrong, same) {
				continue
			}
			if same == "" {
				tries, same = 20, s.wrong[0]
			}
			failed(c, s)
			rt.Logf("%s\n%s", c, strings.Join(s.trace, "\n"))
			rt.Fatalf("%s", same)
		}
	}
}

func playOnce(t *testing.T, c script, broken bool) *sim {
	t.Helper()
	var s *sim
	synctest.Test(t, func(t *testing.T) {
		s = newSim(t, c.seed, broken)
		s.play(c)
	})
	return s
}

func TestSimulationOfFaults(t *testing.T) { simulate(t, false) }

func TestSimulationOfFaultsAndHands(t *testing.T) { simulate(t, true) }

// simulate plays many scripts. Should one fail that rapid cannot make fail again, its scenario is informed all the
// same.
func simulate(t *testing.T, hands bool) {
	t.Helper()
	setFlag(t, "rapid.checks", simRuns(t))
	var last string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last run that failed:\n%s", last)
		}
	})
	rapid.Check(
		t,
		simulation(t, hands, false, func(c script, s *sim) { last = c.String() + "\n" + strings.Join(s.trace, "\n") }),
	)
}

// TestSimulationCanFail lets the simulation run on a store that ignores revisions. It must object, and rapid must
// find a script of a few steps that shows why. rapid gives up when a failure does not come back in its 20 tries, which
// the order of goroutines may cause. So it has three searches to find a short one.
func TestSimulationCanFail(t *testing.T) {
	setFlag(t, "rapid.checks", "200")
	setFlag(t, "rapid.nofailfile", "true")
	setFlag(t, "rapid.shrinktime", "2m")
	const few, searches = 4, 3
	for search := 1; ; search++ {
		last, found := searchBroken(t)
		if !slices.Contains(found.wrong, "two runs of one key") &&
			!slices.Contains(found.wrong, "a token does not rise") {
			t.Fatalf("the failure is another than what such a store leads to: %v", found.wrong)
		}
		if len(last.steps) <= few {
			return
		}
		if search == searches {
			t.Fatalf("no script was shrunk to %d steps in %d searches; the last one:\n%s", few, searches, last)
		}
	}
}

// searchBroken returns the shortest script that rapid found to go wrong on a store that ignores revisions.
func searchBroken(t *testing.T) (script, *sim) {
	t.Helper()
	var first, last script
	var found *sim
	mute := &muteTB{T: t}
	done := make(chan struct{})
	go func() { // rapid ends the goroutine of a test that has failed
		defer close(done)
		rapid.Check(mute, simulation(t, false, true, func(c script, s *sim) {
			if found == nil {
				first = c
			}
			last, found = c, s
		}))
	}()
	<-done
	if !mute.failed || found == nil {
		t.Fatal("nothing is wrong with a store that ignores revisions")
	}
	t.Logf(
		"from %d steps to %d: %s\n%s\n%s", len(first.steps), len(last.steps), found.wrong[0], last,
		strings.Join(found.trace, "\n"),
	)
	return last, found
}

// muteTB takes failures in place of the test.
type muteTB struct {
	*testing.T
	failed bool
	said   []string
}

func (m *muteTB) Errorf(format string, args ...any) {
	m.failed = true
	m.said = append(m.said, fmt.Sprintf(format, args...))
}

func (m *muteTB) Fatalf(format string, args ...any) {
	m.Errorf(format, args...)
	runtime.Goexit()
}

func (m *muteTB) Error(args ...any)   { m.Errorf("%s", fmt.Sprint(args...)) }
func (m *muteTB) Fatal(args ...any)   { m.Fatalf("%s", fmt.Sprint(args...)) }
func (m *muteTB) Fail()               { m.failed = true }
func (m *muteTB) Failed() bool        { return m.failed }
func (m *muteTB) Log(...any)          {}
func (m *muteTB) Logf(string, ...any) {}

func (m *muteTB) FailNow() {
	m.failed = true
	runtime.Goexit()
}

// setFlag gives one of rapid's flags a value for this test, unless the command line did.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	f := flag.Lookup(name)
	before := f.Value.String()
	if err := f.Value.Set(value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Value.Set(before) })
}

// simRuns is how many scripts a test plays: SIM_RUNS, or a few.
func simRuns(t *testing.T) string {
	t.Helper()
	if given := os.Getenv("SIM_RUNS"); given != "" {
		return given
	}
	if suites.Chosen(t, suites.Models) {
		return "60"
	}
	return "10"
}

package protocol_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/search"
)

var (
	appSchedules = flag.Int("app.schedules", 2_000, "schedules of an application to try at random")
	appStates    = flag.Int("app.states", 0, "states of an application to visit at most; 0: 50,000 in the suite of "+
		"models, 5,000 elsewhere")
)

// appRule is one of the rules that keep an application and its replica safe. Tests break them one at a time.
type appRule int

const (
	everyRule          appRule = iota
	countsFromArrival          // ✗ a validity counts from when the reply arrives
	obeysOlderReplies          // ✗ a reply to an older call is obeyed
	anyCallReleases            // ✗ a key is released by any call that does not list it
	forgetsValidity            // ✗ the replica waits for a third of the validity
	ignoresSession             // ✗ what runs goes on when the session changes
	seqWithoutSession          // ✗ seq counts whatever session it is of
	newestWins                 // ✗ another application is listened to at once
	extendsWhatIsOver          // ✗ a reply is acted on before what is over was stopped
	diesWithoutRemains         // ✗ the keys of a worker that dies are free at once
	endedTooEarly              // ✗ a process counts as ended while it runs
)

// clone is the world with all times from now, and all numbers from one in their order: so states that differ in
// nothing else are the same.
func (w *appWorld) clone() *appWorld {
	c := *w
	c.app = w.app.Clone(w.instant())
	c.n = 1
	c.now, c.acked = 0, max(w.acked-w.now, -appHard)
	c.keys = slices.Clone(w.keys)
	c.procs = slices.Clone(w.procs)
	c.calls, c.replies, c.waiting = slices.Clone(w.calls), slices.Clone(w.replies), slices.Clone(w.waiting)
	parts := c.app.Parts()
	parts.Sessions = append(parts.Sessions, &c.session, &c.sessions)
	parts.IDs = append(parts.IDs, &c.ids)
	parts.Tokens = append(parts.Tokens, &c.token)
	for i := range c.keys {
		parts.Tokens = append(parts.Tokens, &c.keys[i].token, &c.keys[i].old)
	}
	for i := range c.procs {
		p := &c.procs[i]
		p.validTo = max(0, p.validTo-w.now)
		p.running = slices.Clone(p.running)
		if p.validTo == 0 && w.rule != extendsWhatIsOver {
			clear(p.running) // it does that before anything else
		}
		parts.Sessions, parts.IDs = append(parts.Sessions, &p.session), append(parts.IDs, &p.id)
		parts.Seqs = append(parts.Seqs, &p.seq)
		for k := range p.running {
			parts.Tokens = append(parts.Tokens, &p.running[k])
		}
	}
	for _, all := range [][]appMessage{c.calls, c.replies, c.waiting} {
		for i := range all {
			m := &all[i]
			m.n = min(m.n, 1)
			m.sent = max(m.sent-w.now, -3*appHard)
			m.tokens = slices.Clone(m.tokens)
			parts.Sessions, parts.IDs = append(parts.Sessions, &m.session), append(parts.IDs, &m.id)
			parts.Seqs = append(parts.Seqs, &m.seq)
			for k := range m.tokens {
				parts.Tokens = append(parts.Tokens, &m.tokens[k])
			}
		}
	}
	rankStrings(parts.Sessions)
	rankStrings(parts.IDs)
	rank(parts.Seqs)
	rank(parts.Tokens)
	return &c
}

// rank replaces numbers by their place among all of them. 0 stays.
func rank(all []*int64) {
	var values []int64
	for _, n := range all {
		if *n != 0 {
			values = append(values, *n)
		}
	}
	slices.Sort(values)
	values = slices.Compact(values)
	for _, n := range all {
		if *n != 0 {
			i, _ := slices.BinarySearch(values, *n)
			*n = int64(i + 1)
		}
	}
}

func rankStrings(all []*string) {
	numbers := make([]int64, len(all))
	places := make([]*int64, len(all))
	for i, s := range all {
		numbers[i], _ = strconv.ParseInt(*s, 10, 64)
		places[i] = &numbers[i]
	}
	rank(places)
	for i, s := range all {
		if *s != "" {
			*s = strconv.FormatInt(numbers[i], 10)
		}
	}
}

// appAction is what may happen next.
type appAction struct {
	name string
	act  func(*appWorld)
}

// appSpace is the worlds that can be reached.
func appSpace() search.Space[*appWorld, appAction] {
	return search.Space[*appWorld, appAction]{
		Packing: search.Packing[*appWorld]{Pack: func(buf []byte, at **appWorld) []byte {
			w := *at
			buf = fmt.Appendf(buf, "%v %v %v %v %v %v %v %v %v %v %v ", w.faults, w.session, w.acked, w.sessions, w.ids,
				w.token, w.keys, w.procs, w.calls, w.replies, w.waiting)
			return w.app.Append(buf)
		}},
		Each: func(at **appWorld, visit func(appAction)) {
			(*at).actions(func(name string, act func(*appWorld)) { visit(appAction{name, act}) })
		},
		Do: func(at **appWorld, a appAction, to **appWorld) search.Step {
			next := (*at).clone()
			a.act(next)
			next.check()
			*to = next.clone()
			return search.Step{Broken: next.broken}
		},
	}
}

// walkApps takes one way at random, of two keys.
func walkApps(seed uint64, rule appRule, steps int) *appWorld {
	random := rand.New(rand.NewPCG(seed, 7))
	w := newAppWorld(2, 5, rule)
	var acts []func(*appWorld)
	for range steps {
		acts = acts[:0]
		faults := random.IntN(8) == 0
		w.actions(func(name string, act func(*appWorld)) {
			if faults || !strings.HasPrefix(name, "fault: ") {
				acts = append(acts, act)
			}
		})
		acts[random.IntN(len(acts))](w)
		if w.check(); w.broken != "" {
			break
		}
	}
	return w
}

// TestApplicationRunsNothingThatIsFree visits what calls and replies that are late, lost, out of order or there twice,
// processes that stand still or die, workers that die and leases that are lost can lead to.
func TestApplicationRunsNothingThatIsFree(t *testing.T) {
	search.Scenario[*appWorld, appAction]{
		Space: appSpace(), First: newAppWorld(1, 2, everyRule).clone(),
		Trace: func(s *search.Search[*appWorld, appAction]) string {
			var names []string
			for _, a := range s.Way() {
				names = append(names, a.name)
			}
			return fmt.Sprintf("%s\n%q", s.Broken, names)
		},
	}.Holds(t, search.Limits{Small: 5_000, Large: 50_000}, *appStates, true)
	starts := 0
	for seed := range *appSchedules {
		w := walkApps(uint64(seed), everyRule, 200)
		if w.broken != "" {
			t.Fatalf("seed %d: %s", seed, w.broken)
		}
		starts += w.starts
	}
	t.Logf("%d schedules of two keys, %d starts", *appSchedules, starts)
	if starts < *appSchedules {
		t.Errorf("%d starts in %d schedules: nothing is shown", starts, *appSchedules)
	}
}

// TestEachApplicationRuleIsNeeded breaks one rule at a time: then two run.
func TestEachApplicationRuleIsNeeded(t *testing.T) {
	for name, rule := range map[string]appRule{
		"counts from arrival": countsFromArrival, "obeys older replies": obeysOlderReplies,
		"any call releases": anyCallReleases, "forgets the validity": forgetsValidity,
		"ignores the session": ignoresSession, "seq without session": seqWithoutSession, "newest wins": newestWins,
		"extends what is over": extendsWhatIsOver, "dies without remains": diesWithoutRemains,
		"ended too early": endedTooEarly,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20_000) {
				if w := walkApps(seed, rule, 200); w.broken != "" {
					t.Logf("seed %d: %s", seed, w.broken)
					return
				}
			}
			t.Error("nothing went wrong")
		})
	}
}

// TestApplicationComesToRest has all faults end after a schedule: then a key that may run runs, and one that is taken
// is released.
func TestApplicationComesToRest(t *testing.T) {
	for seed := range uint64(500) {
		w := walkApps(seed, everyRule, 100)
		for range 2 * appHard {
			w.tick()
			w.loseSession()
			w.round()
		}
		for i, k := range w.keys {
			if k.token != 0 {
				w.take(i)
			}
		}
		w.round()
		w.round()
		if !w.app.Capacity(w.instant()) {
			t.Fatalf("seed %d: no application takes keys", seed)
		}
		for i, k := range w.keys {
			if k.token != 0 || k.busy != 0 {
				t.Fatalf("seed %d: %s is not free: %+v", seed, keyName(i), k)
			}
			w.assign(i)
		}
		w.round()
		for i, k := range w.keys {
			if p := w.process(w.app.Application()); p.running[i] != k.token {
				t.Fatalf("seed %d: %s does not run: %+v", seed, keyName(i), p)
			}
		}
	}
}

package idempotency

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/suites"
)

// The search visits every state that three calls of one request can reach: writes that are not answered and land late
// or never, processes that die at any moment, processes that are taken for dead while they work, and records that
// expire. Two calls are searched whole in each run, three with -idempotency.whole.

var whole = flag.Bool("idempotency.whole", false, "search the states of three calls, and send 10,000 requests")

const callers = 3 // at most

// world is one state of the search.
type world struct {
	Record  seen
	Top     int64 // the largest version there was: a record that is created again is at a larger one
	Owner   int8  // of the record
	Effects int8  // since the request was last unseen
	Begun   int8  // attempts since then, but for those that had no effect
	Doubled bool  // a call works while another does whose process is not known to be dead
	Unaware bool  // a call works that does not know of an attempt before it
	Other   bool  // a call got the reply of another request
	Calls   [callers]caller
}

// caller is one call, in a process of its own.
type caller struct {
	Call   call
	Act    action // to be done next
	Gone   bool   // the process is dead
	Marked bool   // and known to be, rightly or not
	Acted  bool   // the work has had its effect
	Late   late   // a write that was not answered
}

type late struct {
	On   bool
	Over int64
	Rec  seen
	Free bool
}

// weakening leaves a rule out.
type weakening string

const (
	none           weakening = ""
	blindWrites    weakening = "writes do not look at the version"
	unknownStarts  weakening = "an unanswered claim starts the work"
	livingAreDead  weakening = "owners are not asked for"
	failuresForget weakening = "a failure is forgotten as one without effect is"
	secondForgets  weakening = "a second attempt without effect is forgotten"
	printsIgnored  weakening = "fingerprints are not compared"
	expiredStarts  weakening = "a record in the state started expires"
	versionsReused weakening = "versions begin again at 1 when a record was removed"
	workTakenBack  weakening = "a claim is taken back also when its call works"
)

type search struct {
	rules rules
	weak  weakening
	seen  map[world]world // each with the state before it
	now   world
	queue []world
	ends  map[actionKind]bool
	bad   string
	path  []string // to the bad state
}

// explore searches what calls with these fingerprints can reach.
func explore(r rules, weak weakening, prints ...string) *search {
	s := &search{rules: r, weak: weak, seen: make(map[world]world), ends: make(map[actionKind]bool)}
	var w world
	for i := range w.Calls {
		if i >= len(prints) {
			w.Calls[i] = caller{Act: action{Kind: endOwn}, Gone: true, Marked: true}
			continue
		}
		c := call{Rules: r, Claim: string(rune('a' + i)), Print: prints[i]}
		w.Calls[i].Call, w.Calls[i].Act = c.step(event{Kind: asked})
	}
	s.add(w)
	for len(s.queue) > 0 && s.bad == "" {
		w := s.queue[len(s.queue)-1]
		s.queue = s.queue[:len(s.queue)-1]
		s.now = w
		s.expand(w)
	}
	return s
}

func (s *search) add(w world) {
	if _, ok := s.seen[w]; ok {
		return
	}
	s.seen[w] = s.now
	switch {
	case w.Effects > 1 && !s.rules.Recover:
		s.bad = "two effects"
	case w.Doubled:
		s.bad = "two at work, none of them known to be dead"
	case w.Unaware:
		s.bad = "an attempt does not know of the one before"
	case w.Other:
		s.bad = "the reply of another request"
	}
	s.queue = append(s.queue, w)
	if s.bad != "" {
		for one := w; one != (world{}); one = s.seen[one] {
			s.path = append(s.path, fmt.Sprintf("%+v", one))
		}
		slices.Reverse(s.path)
	}
}

func (s *search) expand(w world) {
	if w.Record.Version != 0 && !w.Record.Expired && !s.working(w) {
		next := w
		next.Record.Expired = true
		s.add(next)
	}
	for i := range w.Calls {
		c := &w.Calls[i]
		if c.Late.On {
			s.land(w, i)
		}
		s.takeBack(w, i)
		if !c.Marked {
			next := w // the process dies, or others only take it for dead
			next.Calls[i].Marked = true
			s.add(next)
		}
		if c.Gone || c.Act.Kind.ends() {
			continue
		}
		next := w
		next.Calls[i].Gone = true
		s.add(next)
		s.act(w, i)
	}
}

// working says whether a call is within its work. The context of the work has ended by the time that records expire;
// but not when the weakening has them expire at any time.
func (s *search) working(w world) bool {
	return s.weak != expiredStarts && slices.ContainsFunc(w.Calls[:], func(c caller) bool {
		return c.Call.Phase == working && !c.Gone
	})
}

// act lets one call do what its machine says, in every way that it can go.
func (s *search) act(w world, i int) {
	c := &w.Calls[i]
	switch c.Act.Kind {
	case claimIt, markInterrupted, keepIt, deleteClaim:
		s.write(w, i)
	case readIt:
		s.feed(w, i, event{Kind: found, Seen: w.Record})
	case judgeOwner:
		dead := w.Calls[w.Owner].Marked || s.weak == livingAreDead
		s.feed(w, i, event{Kind: judged, Dead: dead})
		s.feed(w, i, event{Kind: judged}) // not known yet
	case pause:
		s.feed(w, i, event{Kind: gaveUp})
		s.feed(w, i, event{Kind: paused})
	case work:
		s.work(w, i)
	default:
	}
}

// work is the effect, and then the return; or the return alone.
func (s *search) work(w world, i int) {
	if w.Calls[i].Acted {
		s.feed(w, i, event{Kind: returned, Result: succeeded})
		s.feed(w, i, event{Kind: returned, Result: failedWork})
		return
	}
	acted := w
	acted.Calls[i].Acted = true
	acted.Effects++
	s.add(acted)
	s.feed(w, i, event{Kind: returned, Result: failedWork})
	w.Begun-- // it says so, and it is so
	s.feed(w, i, event{Kind: returned, Result: noEffect})
}

// write is what the call wants written: answered, or not.
func (s *search) write(w world, i int) {
	c := &w.Calls[i]
	l := late{On: true, Over: c.Act.Over, Free: c.Act.Kind == deleteClaim, Rec: seen{
		State: Started, Claim: c.Call.Claim, Print: c.Call.Print, Attempt: c.Call.Attempt,
	}}
	switch c.Act.Kind {
	case markInterrupted:
		l.Rec = c.Call.Seen
		l.Rec.State, l.Rec.Interrupted, l.Rec.Claim = Failed, true, c.Call.Claim
	case keepIt:
		l.Rec.State = Failed
		if c.Acted {
			l.Rec.State = Done
		}
	default:
	}
	unanswered := w
	unanswered.Calls[i].Late = l
	if s.weak == unknownStarts && c.Call.Phase == claiming {
		s.feed(unanswered, i, event{Kind: applied, Version: w.Top + 1})
	}
	s.feed(unanswered, i, event{Kind: unknown})

	if next, ok := s.put(w, i, l); ok {
		s.feed(next, i, event{Kind: applied, Version: next.Record.Version})
		return
	}
	s.feed(w, i, event{Kind: refused, Seen: w.Record})
}

// put changes the record if its version is the one that was seen.
func (s *search) put(w world, i int, l late) (world, bool) {
	if w.Record.Version != l.Over && s.weak != blindWrites {
		return w, false
	}
	if w.Record.Expired && l.Rec.State == Started {
		w.Effects, w.Begun = 0, 0 // from now on it is a new request
	}
	if l.Free {
		w.Record = seen{}
		return w, true
	}
	if w.Top++; s.weak == versionsReused {
		w.Top = w.Record.Version + 1
	}
	w.Record = l.Rec
	w.Record.Version, w.Record.Expired = w.Top, false
	if l.Rec.State == Started {
		w.Owner = int8(i)
	}
	return w, true
}

// land has a write happen that was not answered.
func (s *search) land(w world, i int) {
	l := w.Calls[i].Late
	w.Calls[i].Late = late{}
	s.add(w) // or it is lost
	if next, ok := s.put(w, i, l); ok {
		s.add(next)
	}
}

// takeBack has the records remove a claim that was not answered: its call has ended without work.
func (s *search) takeBack(w world, i int) {
	c := &w.Calls[i]
	unanswered := c.Act.Kind == endUnknown || s.weak == workTakenBack && c.Call.Phase == working
	if c.Gone || !unanswered || w.Record.State != Started || w.Record.Claim != string(rune('a'+i)) {
		return
	}
	if w.Record.Attempt == 1 {
		w.Record = seen{}
	} else {
		w.Top++
		w.Record.Version, w.Record.State = w.Top, Failed
	}
	s.add(w)
}

// feed gives a call an event, and looks at what it does then.
func (s *search) feed(w world, i int, e event) {
	c := &w.Calls[i]
	switch {
	case s.weak == failuresForget && e.Kind == returned && e.Result == failedWork:
		e.Result = noEffect
	case s.weak == secondForgets && e.Kind == returned && e.Result == noEffect:
		c.Call.Before = ""
	case s.weak == printsIgnored && (e.Kind == refused || e.Kind == found):
		e.Seen.Print = c.Call.Print
	case s.weak == expiredStarts && (e.Kind == refused || e.Kind == found) && e.Seen.Expired:
		e.Seen.State = Failed
	}
	c.Call, c.Act = c.Call.step(e)
	s.ends[c.Act.Kind] = true
	switch c.Act.Kind {
	case work:
		s.begin(&w, i)
	case endReplay:
		w.Other = w.Record.Print != c.Call.Print && w.Record.State == Done
	default:
	}
	if c.Act.Kind.ends() {
		c.Call = call{Phase: ended} // what it knows does not matter any more
	}
	s.add(w)
}

func (s *search) begin(w *world, i int) {
	w.Unaware = w.Begun > 0 && w.Calls[i].Call.Before == ""
	w.Begun++
	for j, other := range w.Calls {
		if j != i && other.Call.Phase == working && !other.Gone && !other.Marked {
			w.Doubled = true
		}
	}
}

func TestEveryState(t *testing.T) {
	groups := [][]string{{"same", "same"}, {"same", "other"}}
	if *whole {
		groups = [][]string{{"same", "same", "same"}, {"same", "same", "other"}}
	}
	ends := make(map[actionKind]bool)
	for _, r := range []rules{{}, {Wait: true}, {Recover: true}, {Wait: true, Recover: true}} {
		for _, prints := range groups {
			s := explore(r, none, prints...)
			if s.bad != "" {
				t.Fatalf("%+v %v: %s:\n%s", r, prints, s.bad, strings.Join(s.path, "\n"))
			}
			t.Logf("%+v %v: %d states", r, prints, len(s.seen))
			maps.Copy(ends, s.ends)
		}
	}
	for how := endOwn; how <= endGaveUp; how++ {
		if !ends[how] {
			t.Errorf("no call ended with %d", how)
		}
	}
}

// Without each rule a state is found that must not be.
func TestEveryWeakeningIsFound(t *testing.T) {
	same, three := []string{"same", "same"}, []string{"same", "same", "same"}
	for _, tt := range []struct {
		weak   weakening
		rules  rules
		prints []string
	}{
		{blindWrites, rules{}, same},
		{unknownStarts, rules{}, same},
		{livingAreDead, rules{Recover: true}, same},
		{failuresForget, rules{}, same},
		{secondForgets, rules{Recover: true}, three},
		{printsIgnored, rules{}, []string{"same", "other"}},
		{expiredStarts, rules{}, same},
		{versionsReused, rules{}, three},
		{workTakenBack, rules{}, same},
	} {
		t.Run(string(tt.weak), func(t *testing.T) {
			if tt.weak == secondForgets {
				suites.Need(t, suites.Models, "a search of many seconds")
			}
			if s := explore(tt.rules, tt.weak, tt.prints...); s.bad == "" {
				t.Errorf("nothing was found in %d states", len(s.seen))
			} else {
				t.Logf("%s, after %d states", s.bad, len(s.seen))
			}
		})
	}
}

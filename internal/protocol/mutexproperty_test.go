package protocol_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/protocol"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

// Three processes play one mutex on a register. The network loses requests and answers, and delivers late. Processes
// die, lose their lease and come back with another session.

func TestPropertyMutex(t *testing.T) {
	for _, kind := range []struct {
		name  string
		limit int
	}{{"mutex", 1}, {"semaphore", 2}, {"readers and writers", 0}} {
		t.Run(kind.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := newMutexWorld(t, kind.limit)
				for range 5 { // long enough for several to have it
					t.Repeat(w.steps())
				}
				w.finish()
			})
		})
	}
}

type mutexWorld struct {
	*rapid.T
	limit    int
	store    protocol.MutexDoc
	high     int64 // the high-water mark
	now      time.Duration
	clock    int64
	procs    [3]*mutexProc
	dead     map[string]bool
	late     []protocol.MutexAction
	sessions int
	claims   int
	largest  int64 // token of a grant to one who is alone
	any      int64 // token of any grant
	places   map[string]*mutexPlace
}

// mutexPlace is what the place of a call that waits hangs on: the document's revision when it was made, and the one
// that its process was shown first after that.
type mutexPlace struct {
	asked, seen    int64
	looking, shown bool
}

type mutexProc struct {
	protocol.Mutex
	valid   bool
	write   *protocol.MutexAction
	reading bool
	asks    map[string]protocol.MutexRequest // of calls that wait or hold
	holds   map[string]bool                  // granted, and neither lost nor released
	given   map[string]bool                  // granted or lost, and not released
	last    *protocol.MutexAction            // unanswered: the next write must be the same
}

func newMutexWorld(t *rapid.T, limit int) *mutexWorld {
	w := &mutexWorld{
		T: t, limit: limit, clock: 1000, dead: map[string]bool{}, places: map[string]*mutexPlace{},
	}
	for i := range w.procs {
		w.procs[i] = &mutexProc{}
		w.open(w.procs[i])
	}
	return w
}

// open gives a process another session.
func (w *mutexWorld) open(p *mutexProc) {
	w.sessions++
	if p.asks == nil {
		p.asks, p.holds, p.given = map[string]protocol.MutexRequest{}, map[string]bool{}, map[string]bool{}
	}
	p.valid, p.write, p.last = true, nil, nil
	w.step(p, protocol.MutexEvent{Kind: protocol.MutexRenamed, Session: fmt.Sprint("s", w.sessions)})
	clear(p.given)
}

func (w *mutexWorld) step(p *mutexProc, ev protocol.MutexEvent) {
	var acts []protocol.MutexAction
	m := protocol.Moment{Now: instant(w.now), Clock: w.clock, Rev: w.clock, Valid: p.valid}
	p.Mutex, acts = p.Step(ev, m)
	for _, a := range acts {
		w.act(p, a)
	}
}

func (w *mutexWorld) act(p *mutexProc, a protocol.MutexAction) {
	switch a.Kind {
	case protocol.WriteMutex:
		if p.write != nil || p.reading {
			w.Fatalf("%+v with %+v under way, reading %v", a, p.write, p.reading)
		}
		if p.last != nil && p.last.Seq != a.Seq {
			w.Fatalf("unanswered %+v followed by %+v", p.last, a)
		}
		p.write, p.last = &a, &a
		w.looks(p)
	case protocol.ReadMutex:
		if p.write != nil || p.reading {
			w.Fatalf("reads with %+v under way", p.write)
		}
		p.reading = true
		w.looks(p)
	case protocol.MutexGranted:
		w.granted(p, a)
	case protocol.MutexLost:
		if !p.given[a.Claim] {
			w.Fatalf("%s is lost and was not held", a.Claim)
		}
		delete(p.holds, a.Claim)
	case protocol.MutexRefused:
		if !p.asks[a.Claim].Try {
			w.Fatalf("refused: %+v", a)
		}
		delete(p.asks, a.Claim)
	case protocol.MutexDone:
		delete(p.given, a.Claim)
	case protocol.WantSession:
		seen := protocol.MutexEvent{Kind: protocol.MutexAlive, Session: a.Session}
		if w.dead[a.Session] {
			seen.Kind = protocol.MutexDied
		}
		defer w.step(p, seen)
	}
}

func (w *mutexWorld) granted(p *mutexProc, a protocol.MutexAction) {
	ask, waits := p.asks[a.Claim]
	if !waits || !p.valid {
		w.Fatalf("granted to %s, which waits: %v; lease valid: %v", a.Claim, waits, p.valid)
	}
	alone := !ask.Shared && w.limit != 2
	if a.Token <= w.largest || alone && a.Token <= w.any {
		w.Fatalf("token %d after %d and %d", a.Token, w.largest, w.any)
	}
	if alone {
		w.largest = a.Token
	}
	w.any = max(w.any, a.Token)
	p.holds[a.Claim], p.given[a.Claim] = true, true
	writers, all := 0, 0
	for _, q := range w.procs {
		for claim := range q.holds {
			all++
			if !q.asks[claim].Shared {
				writers++
			}
		}
	}
	if w.limit > 0 && all > w.limit || w.limit == 0 && writers > 0 && all > 1 {
		w.Fatalf("%d hold it, %d of them to write", all, writers)
	}
}

// apply lets a copy of a write land.
func (w *mutexWorld) apply(a protocol.MutexAction) protocol.Status {
	if w.store.Rev == a.Doc.Rev && slices.Equal(w.store.Holders, a.Doc.Holders) &&
		slices.Equal(w.store.Queue, a.Doc.Queue) {
		return protocol.Applied
	}
	if w.store.Rev != a.IfRev {
		return protocol.Refused
	}
	if a.Doc.Rev <= a.IfRev {
		w.Fatalf("%+v does not rise", a)
	}
	w.inOrder(w.store, a.Doc)
	w.behind(a.Doc)
	w.store, w.high = a.Doc, max(w.high, a.Doc.Rev)
	return protocol.Applied
}

// inOrder looks at who comes in with a write, and whom it takes out of the queue.
func (w *mutexWorld) inOrder(before, after protocol.MutexDoc) {
	left := map[string]bool{}
	for _, t := range after.Queue {
		left[t.Claim] = true
	}
	holds := map[string]bool{}
	for _, h := range after.Holders {
		holds[h.Claim] = true
	}
	ahead := 0 // tickets that stay, with a writer or of a mutex
	for _, t := range before.Queue {
		switch {
		case left[t.Claim]:
			ahead++
		case holds[t.Claim] && ahead > 0 && (w.limit == 1 || w.limit == 0 && !t.Shared):
			w.Fatalf("%s enters over a ticket before it: %+v then %+v", t.Claim, before, after)
		case !holds[t.Claim] && !w.dead[t.Session] && w.waits(t.Claim):
			w.Fatalf("the ticket %s of a live session is gone: %+v then %+v", t.Claim, before, after)
		}
	}
}

// looks: a process asks for the document, or writes it.
func (w *mutexWorld) looks(p *mutexProc) {
	for claim := range p.asks {
		w.places[claim].looking = true
	}
}

// shows: what it has asked for shows this revision.
func (w *mutexWorld) shows(p *mutexProc, rev int64) {
	for claim := range p.asks {
		if c := w.places[claim]; c.looking && !c.shown {
			c.shown, c.seen = true, rev
		}
	}
}

// behind looks whether a ticket is behind one whose call was made at a later revision than its process had seen.
func (w *mutexWorld) behind(d protocol.MutexDoc) {
	latest := int64(0)
	for _, t := range d.Queue {
		if !w.waits(t.Claim) {
			continue
		}
		if c := w.places[t.Claim]; c.shown && c.seen < latest {
			w.Fatalf("%s saw revision %d first, and is behind a call made at %d: %+v", t.Claim, c.seen, latest, d)
		} else {
			latest = max(latest, c.asked)
		}
	}
}

// waits says whether some process has a call of this name.
func (w *mutexWorld) waits(claim string) bool {
	for _, p := range w.procs {
		if _, ok := p.asks[claim]; ok {
			return true
		}
	}
	return false
}

func (w *mutexWorld) answer(p *mutexProc, status protocol.Status) {
	a := *p.write
	p.write = nil
	ev := protocol.MutexEvent{Kind: protocol.MutexAnswered, Status: status, Seq: a.Seq}
	if status == protocol.Refused {
		ev.Doc = w.store
	}
	switch {
	case status == protocol.Applied:
		w.shows(p, a.Doc.Rev)
	case status == protocol.Refused && w.store.Rev > max(a.IfRev, p.Doc.Rev-1):
		w.shows(p, w.store.Rev)
	}
	if status != protocol.Unknown {
		p.last = nil
	}
	w.step(p, ev)
}

func (w *mutexWorld) read(p *mutexProc) {
	p.reading = false
	w.shows(p, w.store.Rev)
	w.step(p, protocol.MutexEvent{
		Kind: protocol.MutexFound, Doc: w.store, Sure: true, Floor: max(w.clock, w.high+1),
	})
}

func (w *mutexWorld) draw() *mutexProc { return w.procs[rapid.IntRange(0, 2).Draw(w.T, "process")] }

// of draws one of the calls in a set.
func (w *mutexWorld) of(set map[string]bool) string {
	var names []string
	for name := range set {
		names = append(names, name)
	}
	if len(names) == 0 {
		w.Skip()
	}
	slices.Sort(names)
	return rapid.SampledFrom(names).Draw(w.T, "call")
}

func (w *mutexWorld) release(p *mutexProc, claim string, kind protocol.MutexEventKind) {
	delete(p.holds, claim)
	delete(p.asks, claim)
	w.step(p, protocol.MutexEvent{
		Kind: kind, Claim: claim, Keep: protocol.MutexHold{UntilMs: w.clock + 50, ForMs: 50},
	})
}

// end is a process whose session is over: nothing of it runs, and its document says dead.
func (w *mutexWorld) end(p *mutexProc, dies bool) {
	p.valid = false
	w.step(p, protocol.MutexEvent{Kind: protocol.MutexExpired})
	w.dead[p.Session] = true
	if p.write != nil {
		w.late = append(w.late, *p.write)
	}
	if p.last != nil {
		w.late = append(w.late, *p.last)
	}
	for claim := range p.given {
		delete(p.asks, claim)
	}
	over := p.Session
	if dies {
		*p = mutexProc{}
	}
	w.open(p)
	for _, q := range w.procs {
		if slices.Contains(q.Sessions.Wanted, over) {
			w.step(q, protocol.MutexEvent{Kind: protocol.MutexDied, Session: over})
		}
	}
}

// serve answers what a process has under way.
func (w *mutexWorld) serve(p *mutexProc) {
	switch {
	case p.write != nil:
		w.answer(p, w.apply(*p.write))
	case p.reading:
		w.read(p)
	}
}

// seldom lets one in four pass.
func (w *mutexWorld) seldom(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
		t.Skip()
	}
}

func (w *mutexWorld) steps() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"ask": func(t *rapid.T) {
			p := w.draw()
			if len(p.asks) >= 3 {
				p = w.procs[0]
			}
			w.claims++
			claim := fmt.Sprint("c", w.claims)
			ask := protocol.MutexRequest{
				Limit: w.limit, Shared: w.limit == 0 && rapid.Bool().Draw(t, "shared"),
				Try: rapid.IntRange(0, 4).Draw(t, "try") == 0,
			}
			p.asks[claim] = ask
			w.places[claim] = &mutexPlace{asked: w.store.Rev}
			w.step(p, protocol.MutexEvent{Kind: protocol.MutexAsked, Claim: claim, Request: ask})
		},
		"give up": func(*rapid.T) {
			p := w.draw()
			waiting := map[string]bool{}
			for claim := range p.asks {
				waiting[claim] = !p.given[claim]
			}
			claim := w.of(waiting)
			if !p.given[claim] {
				w.release(p, claim, protocol.MutexGaveUp)
			}
		},
		"release": func(*rapid.T) {
			for _, p := range w.procs {
				if len(p.given) > 0 {
					w.release(p, w.of(p.given), protocol.MutexReleased)
				}
			}
		},
		"detach": func(*rapid.T) {
			p := w.draw()
			claim := w.of(p.holds)
			if w.limit == 1 {
				w.release(p, claim, protocol.MutexDetached)
			}
		},
		"answered": func(*rapid.T) { w.serve(w.draw()) },
		"all answered": func(*rapid.T) {
			for range 6 {
				for _, p := range w.procs {
					w.serve(p)
				}
			}
		},
		"answer lost": func(t *rapid.T) {
			p := w.draw()
			if p.reading {
				p.reading = false
				w.step(p, protocol.MutexEvent{Kind: protocol.MutexUnread})
			}
			if p.write == nil {
				t.Skip()
			}
			if rapid.Bool().Draw(t, "late") {
				w.late = append(w.late, *p.write)
			} else if rapid.Bool().Draw(t, "landed") {
				w.apply(*p.write)
			}
			w.answer(p, protocol.Unknown)
		},
		"a late request lands": func(t *rapid.T) {
			if len(w.late) == 0 {
				t.Skip()
			}
			w.apply(w.late[0])
			w.late = w.late[1:]
		},
		"look": func(*rapid.T) { w.step(w.draw(), protocol.MutexEvent{Kind: protocol.MutexLook}) },
		"an old list": func(*rapid.T) {
			w.step(w.draw(), protocol.MutexEvent{Kind: protocol.MutexFound, Doc: w.store})
		},
		"D": func(t *rapid.T) {
			w.seldom(t)
			p := w.draw()
			p.valid = false
			w.step(p, protocol.MutexEvent{Kind: protocol.MutexExpired})
			if len(p.holds) > 0 {
				w.Fatalf("still trusted after D: %v", p.holds)
			}
		},
		"valid again": func(*rapid.T) {
			for _, p := range w.procs {
				p.valid = true
				w.step(p, protocol.MutexEvent{Kind: protocol.MutexTicked})
			}
		},
		"the session is over": func(t *rapid.T) {
			w.seldom(t)
			w.end(w.draw(), false)
		},
		"the process dies": func(t *rapid.T) {
			w.seldom(t)
			w.end(w.draw(), true)
		},
		"time": func(t *rapid.T) {
			w.now += time.Duration(rapid.Int64Range(1, 60).Draw(t, "ms")) * time.Millisecond
			w.clock += rapid.Int64Range(-30, 60).Draw(t, "clock")
			for _, p := range w.procs {
				w.step(p, protocol.MutexEvent{Kind: protocol.MutexTicked})
			}
		},
		"a bystander buries": func(t *rapid.T) {
			w.seldom(t)
			w.bury()
		},
		"deleted": func(t *rapid.T) {
			if w.store.Expires(1) == 0 || slices.ContainsFunc(w.late, creates) || w.creating() {
				t.Skip()
			}
			w.store = protocol.MutexDoc{}
			for _, c := range w.places {
				c.asked = 0 // a day has passed
			}
			w.clock = max(w.clock, w.high) + day // so no revision comes twice, also where the clock steps back
		},
	}
}

// day is longer than the clock of a store steps back, in ms. A document is deleted so long after it expired.
const day = 24 * 60 * 60 * 1000

// bury takes the dead out, as a process does that uses no mutex.
func (w *mutexWorld) bury() {
	if left, named := w.store.Buried(slices.Sorted(maps.Keys(w.dead)), w.clock); named {
		w.store = left
	}
}

func creates(a protocol.MutexAction) bool { return a.IfRev == 0 }

func (w *mutexWorld) creating() bool {
	return slices.ContainsFunc(w.procs[:], func(p *mutexProc) bool { return p.last != nil && creates(*p.last) })
}

// finish lets all faults end. Everybody who waits gets it, in the end nothing of anybody is left, and the document is
// as it would be after a day.
func (w *mutexWorld) finish() {
	for _, p := range w.procs {
		p.valid = true
	}
	for _, a := range w.late {
		w.apply(a)
	}
	w.late = nil
	for range 400 {
		w.now += 10 * time.Millisecond
		w.clock += 10
		busy := false
		for _, p := range w.procs {
			w.step(p, protocol.MutexEvent{Kind: protocol.MutexTicked})
			w.step(p, protocol.MutexEvent{Kind: protocol.MutexLook})
			w.serve(p)
			given := make([]string, 0, len(p.given))
			for claim := range p.given {
				given = append(given, claim)
			}
			slices.Sort(given)
			for _, claim := range given {
				w.release(p, claim, protocol.MutexReleased)
			}
			busy = busy || len(p.asks)+len(p.given) > 0 || p.write != nil || p.reading || !p.Idle()
		}
		if !busy {
			break
		}
	}
	for _, p := range w.procs {
		if len(p.asks)+len(p.given) > 0 {
			w.Fatalf("never done: %v %v in %+v, document %+v", p.asks, p.given, p.Mutex, w.store)
		}
	}
	// What is left are tickets and holders of the dead, which no one waits for. A bystander takes them out.
	w.bury()
	if w.store.Rev > 0 && w.store.Expires(1) == 0 {
		w.Fatalf("a ghost: %+v", w.store)
	}
}

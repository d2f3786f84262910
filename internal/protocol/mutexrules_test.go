package protocol_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

func held(limit int, holders ...protocol.MutexHolder) protocol.MutexDoc {
	return protocol.MutexDoc{Rev: 500, Limit: limit, Holders: holders}
}

func ticket(session, claim string) protocol.MutexTicket {
	return protocol.MutexTicket{Session: session, Claim: claim}
}

func reader(session, claim string) protocol.MutexTicket {
	return protocol.MutexTicket{Session: session, Claim: claim, Shared: true}
}

func (r *rig) claims() (holders, queue string) {
	names := func(n int, of func(int) string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = of(i)
		}
		return strings.Join(all, " ")
	}
	return names(len(r.store.Holders), func(i int) string { return r.store.Holders[i].Claim }),
		names(len(r.store.Queue), func(i int) string { return r.store.Queue[i].Claim })
}

func (r *rig) shows(holders, queue, next string) {
	r.Helper()
	if h, q := r.claims(); h != holders || q != queue || r.store.Next != next {
		r.Errorf("held by %q, waiting %q, next %q; want %q, %q, %q", h, q, r.store.Next, holders, queue, next)
	}
}

// holding is A with the mutex.
func holding(t *testing.T, ask protocol.MutexRequest) *rig {
	t.Helper()
	r := newRig(t, "A")
	r.ask("a1", ask)
	only(t, r.serve(), protocol.MutexGranted)
	return r
}

func TestMutexRepeatsTheVerySameWrite(t *testing.T) {
	r := newRig(t, "A")
	r.store = held(1, protocol.MutexHolder{Session: "B", Claim: "b1", Token: 500})
	r.ask("a1", exclusive())
	r.do(protocol.MutexEvent{Kind: protocol.MutexFound, Doc: r.store, Sure: true})
	first := only(t, r.acts, protocol.WriteMutex)
	r.answer(first, protocol.Unknown)
	r.ask("a2", exclusive()) // comes too late for it
	none(t, r.acts, protocol.WriteMutex)
	r.at.Rev, r.at.Clock = 9000, 9000
	r.on(protocol.MutexTicked)
	if again := only(t, r.acts, protocol.WriteMutex); again.Seq != first.Seq || again.Doc.Rev != first.Doc.Rev ||
		len(again.Doc.Queue) != 1 {
		t.Errorf("%+v, want %+v again", again, first)
	}
	r.serve()
	r.shows("b1", "a1 a2", "")
}

// A claim that is found landed rests on what may be forgotten: it is made again, with a larger token.
func TestMutexMakesAClaimAgainThatWasFound(t *testing.T) {
	r := newRig(t, "A")
	r.ask("a1", exclusive())
	r.do(protocol.MutexEvent{Kind: protocol.MutexFound, Sure: true, Floor: 3000})
	w := only(t, r.acts, protocol.WriteMutex)
	r.apply(w)
	r.answer(w, protocol.Unknown)
	r.store.Rev++ // another one has written since
	r.on(protocol.MutexTicked)
	granted := only(t, r.serve(), protocol.MutexGranted)
	if granted.Token <= w.Doc.Rev || granted.Token != r.store.Rev || w.Doc.Rev != 3000 {
		t.Errorf("token %d in %+v, first claim %d", granted.Token, r.store, w.Doc.Rev)
	}
	r.shows("a1", "", "")
}

func TestMutexReleaseNeverPauses(t *testing.T) {
	r := holding(t, exclusive())
	for i := range 3 {
		r.others(ticket("B", fmt.Sprint("b", i)))
		if i == 0 {
			r.event(protocol.MutexReleased, "a1")
		}
		w := only(t, r.acts, protocol.WriteMutex)
		r.answer(w, protocol.Refused)
	}
	only(t, r.serve(), protocol.MutexDone)
	r.shows("", "b0 b1 b2", "B")
}

func TestMutexNewTicketsPauseAfterARefusal(t *testing.T) {
	r := newRig(t, "A")
	r.store = held(1, protocol.MutexHolder{Session: "B", Claim: "b1", Token: 500})
	r.ask("a1", exclusive())
	r.do(protocol.MutexEvent{Kind: protocol.MutexFound, Doc: r.store, Sure: true})
	w := only(t, r.acts, protocol.WriteMutex)
	r.store.Rev++
	r.answer(w, protocol.Refused)
	none(t, r.acts, protocol.WriteMutex)
	d, ok := r.Due(r.at)
	if !ok || d <= 0 || d > 100*time.Millisecond {
		t.Fatalf("due in %v, %v", d, ok)
	}
	r.at.Now = r.at.Now.Add(d)
	r.on(protocol.MutexTicked)
	r.serve()
	r.shows("b1", "a1", "")
}

func TestMutexPassesOverTheDeadOnly(t *testing.T) {
	r := holding(t, exclusive())
	for _, s := range []string{"B", "C", "D"} {
		r.others(ticket(s, "of "+s))
	}
	r.on(protocol.MutexLook)
	if acts := r.serve(); len(acts) != 3 {
		t.Fatalf("want to know three sessions: %+v", acts)
	}
	r.died("B")
	r.event(protocol.MutexReleased, "a1")
	r.serve()
	r.shows("", "of C of D", "C") // B was taken out with the release

	c := newRig(t, "D")
	c.store = r.store
	c.ask("of D", exclusive())
	none(t, c.serve(), protocol.MutexGranted)
	c.at.Now = c.at.Now.Add(time.Hour)
	c.on(protocol.MutexTicked)
	none(t, c.serve(), protocol.MutexGranted) // C is slow: that is no reason
	c.died("C")
	only(t, c.serve(), protocol.MutexGranted)
	c.shows("of D", "", "")
}

// The holder may not know of the death, and would notify the dead one alone.
func TestMutexTicketBehindADeadOneTakesItOut(t *testing.T) {
	r := newRig(t, "A")
	r.store = held(1, protocol.MutexHolder{Session: "B", Claim: "b1", Token: 500})
	r.others(ticket("C", "c1"), ticket("D", "d1"), ticket("A", "a1"))
	r.ask("a1", exclusive())
	r.serve()
	r.died("C")
	none(t, r.acts, protocol.WriteMutex) // that is D's to do
	r.died("D")
	r.serve()
	r.shows("b1", "a1", "")
}

func TestMutexWithADeadHolderGoesToTheFirstTicketAlive(t *testing.T) {
	r := newRig(t, "B")
	r.store = held(1, protocol.MutexHolder{Session: "A", Claim: "a1", Token: 500})
	r.ask("b1", exclusive())
	if want := only(t, r.serve(), protocol.WantSession); want.Session != "A" {
		t.Fatalf("%+v", want)
	}
	r.died("A")
	only(t, r.serve(), protocol.MutexGranted)
	r.shows("b1", "", "")
}

func TestMutexDeclinesWhatNobodyWaitsFor(t *testing.T) {
	r := newRig(t, "A")
	r.store = held(1, protocol.MutexHolder{Session: "B", Claim: "b1", Token: 500}).Queued(ticket("A", "left"))
	r.on(protocol.MutexLook)
	r.serve()
	r.shows("b1", "", "")

	r.ask("a1", exclusive())
	r.serve()
	r.event(protocol.MutexGaveUp, "a1")
	r.serve()
	r.shows("b1", "", "")

	r.store.Holders[0] = protocol.MutexHolder{Session: "A", Claim: "left", Token: 700}
	r.on(protocol.MutexLook)
	r.serve()
	r.shows("", "", "")
}

// A call that is granted in the moment it gives up is released.
func TestMutexGivenUpTooLateIsReleased(t *testing.T) {
	r := holding(t, exclusive())
	r.event(protocol.MutexGaveUp, "a1")
	only(t, r.serve(), protocol.MutexDone)
	r.shows("", "", "")
}

func TestMutexKeepsItsPlaceInAnotherSession(t *testing.T) {
	r := newRig(t, "A")
	r.store = held(1, protocol.MutexHolder{Session: "B", Claim: "b1", Token: 500})
	r.ask("a1", exclusive())
	r.serve()
	r.others(ticket("C", "c1"))
	r.do(protocol.MutexEvent{Kind: protocol.MutexRenamed, Session: "A2"})
	r.serve()
	r.shows("b1", "a1 c1", "")
	if r.store.Queue[0].Session != "A2" {
		t.Errorf("%+v", r.store)
	}
	r.died("B")
	only(t, r.serve(), protocol.MutexGranted)
}

func TestMutexRefusesMoreThanItHolds(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, tc := range []struct {
		name string
		size int // of each ticket's claim
		room int // tickets beside the holder
	}{{"tickets", 1, protocol.MaxTickets}, {"bytes", 1000, 63}} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, "A")
			r.store = held(1, protocol.MutexHolder{Session: "B", Claim: "b1", Token: 500})
			for i := range tc.room - 1 {
				r.store = r.store.Queued(ticket("C", fmt.Sprintf("%.*s", tc.size, fmt.Sprint(i, long))))
			}
			r.ask("a1"+long[:tc.size-1], exclusive())
			none(t, r.serve(), protocol.MutexRefused)
			r.ask("a2"+long[:tc.size-1], exclusive())
			if refused := only(t, r.serve(), protocol.MutexRefused); refused.Reason != protocol.QueueFull {
				t.Errorf("%+v", refused)
			}
			if len(r.store.Queue) != tc.room || r.store.Size() > protocol.MaxMutexSize {
				t.Errorf("%d tickets, %d bytes", len(r.store.Queue), r.store.Size())
			}
		})
	}
}

// How many calls can wait for a lock, each in a write of its own, some ten seconds after the one before it.
func TestMutexHoldsSoManyTickets(t *testing.T) {
	for _, tc := range []struct {
		name            string
		shared          bool
		processes, want int
	}{
		{"of 60 processes", false, 60, protocol.MaxTickets},
		{"of 200 processes", false, 200, protocol.MaxTickets},
		{"of a process each", false, protocol.MaxTickets, 670},
		{"readers of 60 processes", true, 60, 880},
		{"readers of a process each", true, protocol.MaxTickets, 590},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := held(1, protocol.MutexHolder{Session: "B", Claim: "b1", Token: 500})
			const grows = 104 // what a ticket needs to enter
			for i := range protocol.MaxTickets {
				next := d.Queued(protocol.MutexTicket{
					Session: fmt.Sprintf("%036d", i%tc.processes), Claim: fmt.Sprintf("%016d", i), Shared: tc.shared,
					Seen: 1_790_000_000_000 + int64(i)*10_000,
				})
				if next.Size()+grows > protocol.MaxMutexSize {
					break
				}
				d = next
			}
			if n := len(d.Queue); n < tc.want || n > tc.want+10 {
				t.Errorf("%d tickets, want %d", n, tc.want)
			}
		})
	}
}

// A ticket grows when it enters. Where the document has no space for all that may, as many enter as fit, and the others
// once those leave.
func TestMutexEntersAsFarAsItFits(t *testing.T) {
	long := strings.Repeat("x", 1000)
	r := holding(t, protocol.MutexRequest{})
	refused := 0
	for i := range 70 {
		r.ask(fmt.Sprint("r", i, long), protocol.MutexRequest{Shared: true})
		for _, a := range r.serve() {
			if a.Kind == protocol.MutexRefused {
				refused++
			}
		}
	}
	var inside []string
	entered := 0
	leave := func(claim string) {
		r.event(protocol.MutexReleased, claim)
		for _, a := range r.serve() {
			if a.Kind == protocol.MutexGranted {
				inside = append(inside, a.Claim)
				entered++
			}
		}
		if r.store.Size() > protocol.MaxMutexSize {
			t.Fatalf("%d bytes", r.store.Size())
		}
	}
	leave("a1")
	if entered == 0 || entered == 70-refused {
		t.Errorf("%d of %d entered at once, want a part", entered, 70-refused)
	}
	for len(inside) > 0 {
		claim := inside[0]
		inside = inside[1:]
		leave(claim)
	}
	if entered != 70-refused {
		t.Errorf("%d of %d entered", entered, 70-refused)
	}
	if refused == 0 {
		t.Error("none was refused: the document was not full")
	}
}

// A write that no store can take is not repeated: what it was for is refused, and what leaves is gone here.
func TestMutexUnwritable(t *testing.T) {
	r := holding(t, exclusive())
	r.ask("a2", exclusive())
	r.answer(only(t, r.acts, protocol.WriteMutex), protocol.Unwritable)
	if refused := only(t, r.acts, protocol.MutexRefused); refused.Reason != protocol.MutexUnwritable {
		t.Errorf("%+v", refused)
	}
	r.event(protocol.MutexReleased, "a1")
	r.do(protocol.MutexEvent{Kind: protocol.MutexFound, Doc: r.store, Sure: true})
	r.on(protocol.MutexTicked)
	r.answer(only(t, r.acts, protocol.WriteMutex), protocol.Unwritable)
	only(t, r.acts, protocol.MutexDone)
	if !r.Idle() {
		t.Errorf("not idle: %+v", r.Mutex)
	}
}

func TestMutexReadersAndWriters(t *testing.T) {
	read, write := protocol.MutexRequest{Shared: true}, protocol.MutexRequest{}
	a := holding(t, read)
	b := newRig(t, "B")
	b.store = a.store
	b.ask("b1", read)
	only(t, b.serve(), protocol.MutexGranted)
	b.ask("b2", write)
	none(t, b.serve(), protocol.MutexGranted)
	b.ask("b3", read) // writers are not starved
	none(t, b.serve(), protocol.MutexGranted)
	b.shows("a1 b1", "b2 b3", "")
	if b.store.Session() != "" {
		t.Errorf("several hold it: %q", b.store.Session())
	}

	a.store = b.store
	a.event(protocol.MutexReleased, "a1")
	a.serve()
	b.store = a.store
	b.event(protocol.MutexReleased, "b1")
	if granted := only(t, b.serve(), protocol.MutexGranted); granted.Claim != "b2" {
		t.Errorf("%+v", granted)
	}
	if b.store.Exclusive != b.store.Holders[0].Token || b.store.Shared == 0 || b.store.Shared >= b.store.Exclusive {
		t.Errorf("marks: %+v", b.store)
	}
	b.event(protocol.MutexReleased, "b2")
	only(t, b.serve(), protocol.MutexGranted)
	b.shows("b3", "", "")
}

// Readers who wait together come in one after the other, each woken by the one before.
func TestMutexWakesTheNextReader(t *testing.T) {
	r := newRig(t, "A")
	r.store = held(0)
	r.store.Queue = []protocol.MutexTicket{reader("A", "a1"), reader("B", "b1"), ticket("C", "c1"), reader("D", "d1")}
	r.ask("a1", protocol.MutexRequest{Shared: true})
	only(t, r.serve(), protocol.MutexGranted)
	r.shows("a1", "b1 c1 d1", "B")
	d := newRig(t, "D")
	d.store = r.store
	d.ask("d1", protocol.MutexRequest{Shared: true})
	none(t, d.serve(), protocol.MutexGranted)
}

func TestSemaphore(t *testing.T) {
	two := protocol.MutexRequest{Limit: 2}
	r := holding(t, two)
	r.ask("a2", two)
	if granted := only(t, r.serve(), protocol.MutexGranted); granted.Slot != 1 {
		t.Errorf("%+v", granted)
	}
	r.ask("a3", two)
	none(t, r.serve(), protocol.MutexGranted)
	r.ask("other", protocol.MutexRequest{Limit: 3})
	if refused := only(t, r.serve(), protocol.MutexRefused); refused.Reason != protocol.LimitDiffers {
		t.Errorf("%+v", refused)
	}
	r.event(protocol.MutexReleased, "a1")
	if granted := only(t, r.serve(), protocol.MutexGranted); granted.Slot != 0 {
		t.Errorf("%+v", granted)
	}
	for _, claim := range []string{"a2", "a3"} {
		r.event(protocol.MutexReleased, claim)
		r.serve()
	}
	r.ask("a4", protocol.MutexRequest{Limit: 3}) // it is unused: its limit may change
	only(t, r.serve(), protocol.MutexGranted)
}

// A place of a semaphore is left for each of those who wait before.
func TestSemaphoreLeavesAPlaceForThoseBefore(t *testing.T) {
	r := newRig(t, "A")
	r.store = held(2, protocol.MutexHolder{Session: "X", Claim: "x", Token: 500}).Queued(ticket("B", "b1"))
	r.ask("a1", protocol.MutexRequest{Limit: 2})
	none(t, r.serve(), protocol.MutexGranted)
	r.shows("x", "b1 a1", "B")
}

func TestUnfairEntersWhereNobodyWasTold(t *testing.T) {
	unfair := protocol.MutexRequest{Limit: 1, Unfair: true}
	for _, tc := range []struct {
		name  string
		ask   protocol.MutexRequest
		wants string // who holds it, who waits, who is next
	}{
		{"unfair, in the write of the release", unfair, "a2|b1|"},
		{"fair", exclusive(), "|b1 a2|B"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := holding(t, exclusive())
			a.others(ticket("B", "b1"))
			a.on(protocol.MutexLook)
			a.serve()
			a.ask("a2", tc.ask)
			a.serve()
			a.event(protocol.MutexReleased, "a1")
			a.serve()
			want := strings.Split(tc.wants, "|")
			a.shows(want[0], want[1], want[2])
		})
	}
	t.Run("where somebody was notified", func(t *testing.T) {
		c := newRig(t, "C")
		c.store = held(1).Queued(ticket("B", "b1"))
		c.store.Next = "B"
		c.ask("c1", unfair)
		none(t, c.serve(), protocol.MutexGranted)
		c.shows("", "b1 c1", "B")
		c.died("B")
		only(t, c.serve(), protocol.MutexGranted)
	})
	t.Run("a reader over a writer", func(t *testing.T) {
		c := newRig(t, "C")
		c.store = held(0, protocol.MutexHolder{Session: "A", Claim: "a1", Token: 5, Shared: true}).Queued(ticket("B",
			"b1"))
		c.ask("c1", protocol.MutexRequest{Shared: true, Unfair: true})
		none(t, c.serve(), protocol.MutexGranted)
	})
}

func TestMutexIsKeptAtLeastSoLong(t *testing.T) {
	for _, tc := range []struct {
		name  string
		later time.Duration
		clock int64
		want  bool
	}{
		{"too early", 59 * time.Second, 59_000, false},
		{"the store's clock has passed it", time.Second, 60_000, true},
		{"its clock is set back a year, and the time has passed here", 60 * time.Second, -365 * 86_400_000, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := holding(t, protocol.MutexRequest{Limit: 1, AtLeast: time.Minute})
			if a.store.Hold.UntilMs != 61_000 || a.store.Hold.Token != a.store.Rev {
				t.Fatalf("the claim keeps it, also where its process dies: %+v", a.store.Hold)
			}
			a.event(protocol.MutexReleased, "a1")
			a.serve()
			b := newRig(t, "B")
			b.store = a.store
			b.ask("b1", exclusive())
			none(t, b.serve(), protocol.MutexGranted)
			if d, ok := b.Due(b.at); !ok || d != time.Minute {
				t.Errorf("due in %v, %v", d, ok)
			}
			b.at.Now, b.at.Clock = b.at.Now.Add(tc.later), 1000+tc.clock
			b.on(protocol.MutexTicked)
			granted := slices.ContainsFunc(b.serve(), func(a protocol.MutexAction) bool {
				return a.Kind == protocol.MutexGranted
			})
			if granted != tc.want {
				t.Errorf("granted: %v", granted)
			}
		})
	}
}

// The store's clock was a year ahead when it was kept. Whoever asks sets that right, once, before a call is refused.
func TestMutexKeptByAClockThatWasFarAhead(t *testing.T) {
	const year, now = 365 * 86_400_000, 100_000
	hold := protocol.MutexHold{UntilMs: now + year, ForMs: 60_000, Token: 5}
	try := exclusive()
	try.Try = true
	b := newRig(t, "B")
	b.store, b.at.Clock = protocol.MutexDoc{Rev: 10, Limit: 1, Exclusive: 5, Hold: hold}, now
	b.ask("b1", try)
	acts := b.serve()
	only(t, acts, protocol.MutexRefused)
	if is := b.store.Hold; is.UntilMs != now+60_000 || !is.Same(hold) {
		t.Fatalf("refused with the hold as it was: %+v", is)
	}
	b.ask("b2", try)
	if none(t, b.serve(), protocol.WriteMutex); b.store.Hold.UntilMs != now+60_000 {
		t.Errorf("set right again: %+v", b.store.Hold)
	}
	c := newRig(t, "C") // another process: nothing is known of how long it has lasted
	c.store, c.at.Clock = b.store, now+60_000
	c.ask("c1", try)
	only(t, c.serve(), protocol.MutexGranted)

	// What has been waited for is not waited for anew.
	w, x := newRig(t, "W"), newRig(t, "X")
	w.store, w.at.Clock = protocol.MutexDoc{Rev: 10, Limit: 1, Exclusive: 5, Hold: hold}, now+year-60_000
	w.ask("w1", exclusive())
	w.serve()
	x.store, x.at.Clock = w.store, now+1000
	x.ask("x1", exclusive())
	x.serve()
	w.store, w.at.Clock = x.store, now+1000
	w.at.Now = w.at.Now.Add(60 * time.Second)
	w.on(protocol.MutexLook)
	only(t, w.serve(), protocol.MutexGranted)
}

func TestMutexIsDetached(t *testing.T) {
	r := holding(t, exclusive())
	keep := protocol.MutexHold{UntilMs: 90_000, ForMs: 89_000}
	r.do(protocol.MutexEvent{Kind: protocol.MutexDetached, Claim: "a1", Keep: keep})
	acts := r.serve()
	only(t, acts, protocol.MutexDone)
	none(t, acts, protocol.MutexLost)
	r.shows("", "", "")
	if keep.Token, keep.Left = 1000, true; r.store.Hold != keep || r.store.Expires(5) != 90_000+24*60*60*1000 {
		t.Errorf("%+v", r.store)
	}

	r = holding(t, exclusive())
	r.do(protocol.MutexEvent{Kind: protocol.MutexDetached, Claim: "a1", Keep: keep})
	r.do(protocol.MutexEvent{Kind: protocol.MutexRenamed, Session: "A2"}) // before it was acknowledged
	only(t, r.acts, protocol.MutexLost)

	r = holding(t, protocol.MutexRequest{Shared: true})
	r.do(protocol.MutexEvent{Kind: protocol.MutexDetached, Claim: "a1", Keep: keep})
	if refused := only(t, r.acts, protocol.MutexRefused); refused.Reason != protocol.NotAlone || r.Running() != 1 {
		t.Errorf("%+v", refused)
	}
	r.ask("a2", protocol.MutexRequest{Shared: true, AtLeast: time.Second})
	if refused := only(t, r.acts, protocol.MutexRefused); refused.Reason != protocol.NotAlone {
		t.Errorf("%+v", refused)
	}
}

func TestMutexTryLooksBeforeItIsRefused(t *testing.T) {
	try := protocol.MutexRequest{Limit: 1, Try: true}
	r := newRig(t, "A")
	r.store = held(1, protocol.MutexHolder{Session: "B", Claim: "b1", Token: 500})
	r.ask("a1", try)
	none(t, r.serve(), protocol.MutexRefused) // B may be dead
	r.do(protocol.MutexEvent{Kind: protocol.MutexAlive, Session: "B"})
	if refused := only(t, r.serve(), protocol.MutexRefused); refused.Reason != protocol.MutexBusy {
		t.Errorf("%+v", refused)
	}
	r.shows("b1", "", "")
	r.store.Rev, r.store.Holders = 501, nil // without a notification
	r.ask("a2", try)
	only(t, r.serve(), protocol.MutexGranted)
}

// A read that fails is repeated at the next tick, also where another document is known: a store that fails at once
// would be asked without end.
func TestMutexReadsAgainAtTheNextTick(t *testing.T) {
	r := newRig(t, "A")
	r.store = held(1, protocol.MutexHolder{Session: "B", Claim: "b1", Token: 500})
	r.ask("a1", exclusive())
	r.serve()
	r.ask("a2", protocol.MutexRequest{Limit: 1, Try: true})
	only(t, r.acts, protocol.ReadMutex)
	r.on(protocol.MutexUnread)
	none(t, r.acts, protocol.ReadMutex)
	r.on(protocol.MutexTicked)
	only(t, r.acts, protocol.ReadMutex)
}

func TestMutexTryLearnsWhoIsBeforeIt(t *testing.T) {
	try := protocol.MutexRequest{Limit: 2, Try: true}
	r := newRig(t, "A")
	r.store = held(2, protocol.MutexHolder{Session: "B", Claim: "b1", Token: 499},
		protocol.MutexHolder{Session: "C", Claim: "c1", Token: 500, Slot: 1})
	r.others(ticket("D", "d1"))
	r.ask("a1", try)
	r.serve()
	alive := func(session string) {
		r.do(protocol.MutexEvent{Kind: protocol.MutexAlive, Session: session})
	}
	alive("B")
	none(t, r.serve(), protocol.MutexRefused) // were C and D dead, a slot would be free
	alive("D")                                // who would have that slot
	if refused := only(t, r.serve(), protocol.MutexRefused); refused.Reason != protocol.MutexBusy {
		t.Errorf("%+v", refused)
	}
	r.died("C")
	r.died("D")
	r.ask("a2", try)
	only(t, r.serve(), protocol.MutexGranted)
	r.shows("b1 a2", "", "")
}

func TestMutexEndsTheLongestHold(t *testing.T) {
	r := holding(t, protocol.MutexRequest{Limit: 1, MaxHold: time.Minute})
	if r.store.Holders[0].Until != 61_000 {
		t.Errorf("%+v", r.store.Holders)
	}
	if d, ok := r.Due(r.at); !ok || d != time.Minute {
		t.Errorf("due in %v, %v", d, ok)
	}
	r.at.Now = r.at.Now.Add(time.Minute)
	r.on(protocol.MutexTicked)
	if lost := only(t, r.acts, protocol.MutexLost); lost.Reason != protocol.HeldTooLong {
		t.Errorf("%+v", lost)
	}
	r.shows("a1", "", "") // until it is released
	r.event(protocol.MutexReleased, "a1")
	only(t, r.serve(), protocol.MutexDone)
	r.shows("", "", "")
}

func TestMutexIsLostWithTheLease(t *testing.T) {
	r := holding(t, exclusive())
	r.at.Valid = false
	r.on(protocol.MutexExpired)
	if lost := only(t, r.acts, protocol.MutexLost); lost.Reason != protocol.LeaseExpired || r.Running() != 1 {
		t.Errorf("%+v", lost)
	}
	r.ask("a2", exclusive())
	none(t, r.serve(), protocol.MutexGranted, protocol.MutexRefused)
	r.at.Valid = true
	r.on(protocol.MutexTicked)
	none(t, r.serve(), protocol.MutexGranted) // a1 was not released
	r.event(protocol.MutexReleased, "a1")
	acts := r.serve()
	only(t, acts, protocol.MutexDone)
	if granted := only(t, acts, protocol.MutexGranted); granted.Claim != "a2" {
		t.Errorf("%+v", granted)
	}
}

// A claim that is acknowledged after D starts nothing. Once the lease is valid again it is made again.
func TestMutexClaimAcknowledgedTooLate(t *testing.T) {
	r := newRig(t, "A")
	r.ask("a1", exclusive())
	r.do(protocol.MutexEvent{Kind: protocol.MutexFound, Sure: true, Floor: 1000})
	r.at.Valid = false
	none(t, r.serve(), protocol.MutexGranted)
	first := r.store.Rev
	r.at.Valid = true
	r.on(protocol.MutexTicked)
	if granted := only(t, r.serve(), protocol.MutexGranted); granted.Token <= first {
		t.Errorf("%+v after %d", granted, first)
	}
}

func TestMutexHolderThatIsGoneIsLost(t *testing.T) {
	for name, store := range map[string]protocol.MutexDoc{
		"another's": held(1, protocol.MutexHolder{Session: "B", Claim: "b1", Token: 2000}), "absent": {},
	} {
		t.Run(name, func(t *testing.T) {
			r := holding(t, exclusive())
			r.store = store
			r.store.Rev *= 4
			r.on(protocol.MutexLook)
			if lost := only(t, r.serve(), protocol.MutexLost); lost.Reason != protocol.HolderGone {
				t.Errorf("%+v", lost)
			}
		})
	}
}

func TestMutexInDoubtIsCompared(t *testing.T) {
	r := holding(t, exclusive())
	r.ask("a2", exclusive())
	w := only(t, r.acts, protocol.WriteMutex)
	r.on(protocol.MutexLineageChanged)
	only(t, r.acts, protocol.ReadMutex)
	r.answer(w, protocol.Applied) // says nothing any more
	if !r.Verifying || r.Write.Under {
		t.Fatalf("%+v", r.Mutex)
	}
	r.do(protocol.MutexEvent{Kind: protocol.MutexUnread})
	none(t, r.acts, protocol.ReadMutex)
	r.on(protocol.MutexTicked)
	none(t, r.serve(), protocol.MutexLost, protocol.MutexGranted)
	if r.Verifying {
		t.Error("still verifying")
	}
	r.shows("a1", "a2", "")

	r.on(protocol.MutexLineageChanged)
	r.store.Holders = nil // the claim is forgotten
	only(t, r.serve(), protocol.MutexLost)
}

// A token exceeds both marks, also in a document that somebody has put back, and what a new one must not be below.
func TestMutexTokensRise(t *testing.T) {
	r := newRig(t, "A")
	r.store = held(0)
	r.store.Exclusive, r.store.Shared = 7000, 8000
	r.ask("a1", protocol.MutexRequest{Shared: true})
	if granted := only(t, r.serve(), protocol.MutexGranted); granted.Token != 8001 {
		t.Errorf("%+v", granted)
	}
	r.event(protocol.MutexReleased, "a1")
	r.serve()
	r.store = protocol.MutexDoc{} // deleted after a day
	r.ask("a2", protocol.MutexRequest{Shared: true})
	w := only(t, r.acts, protocol.WriteMutex)
	r.answer(w, protocol.Refused)
	only(t, r.acts, protocol.ReadMutex)
	r.do(protocol.MutexEvent{Kind: protocol.MutexFound, Sure: true, Floor: 9000})
	if granted := only(t, r.serve(), protocol.MutexGranted); granted.Token != 9000 {
		t.Errorf("%+v", granted)
	}
}

func TestMutexWriteTakesTheClockOfItsSending(t *testing.T) {
	r := newRig(t, "A")
	r.ask("a1", protocol.MutexRequest{Limit: 1, AtLeast: time.Second})
	r.do(protocol.MutexEvent{Kind: protocol.MutexFound, Sure: true, Floor: 1000})
	r.Mutex = r.WithClock(4000)
	d := r.Write.Doc
	if d.Rev != 4000 || d.Holders[0].Token != 4000 || d.Exclusive != 4000 || d.Hold.Token != 4000 {
		t.Fatalf("%+v", d)
	}
	if r.acts[0].Doc.Holders[0].Token != 1000 {
		t.Error("the action before was changed in place")
	}
	r.store = d
	r.do(protocol.MutexEvent{Kind: protocol.MutexAnswered, Status: protocol.Applied, Seq: r.Write.Seq})
	if granted := only(t, r.acts, protocol.MutexGranted); granted.Token != 4000 {
		t.Errorf("%+v", granted)
	}
}

// A refusal that shows what was known before is no reason to try again at once.
func TestMutexWaitsWhereTheStoreRefusesWhatIsThere(t *testing.T) {
	r := newRig(t, "A")
	r.store = held(1)
	r.ask("a1", exclusive())
	r.do(protocol.MutexEvent{Kind: protocol.MutexFound, Doc: r.store, Sure: true})
	r.answer(only(t, r.acts, protocol.WriteMutex), protocol.Refused)
	none(t, r.acts, protocol.WriteMutex, protocol.ReadMutex)
	r.on(protocol.MutexTicked)
	only(t, r.serve(), protocol.MutexGranted)
}

// Where no waiter takes the dead out, anyone does. The tokens that they had are not given again.
func TestMutexIsRidOfTheDead(t *testing.T) {
	r := newRig(t, "A")
	d := held(1, protocol.MutexHolder{Session: "B", Claim: "b1", Token: 500}).Queued(ticket("C", "c1"))
	d.Exclusive = 900
	r.store = d
	r.on(protocol.MutexLook)
	none(t, r.serve(), protocol.WantSession)
	r.died("B")
	none(t, r.acts, protocol.WriteMutex) // no call waits here
	var named bool
	r.store, named = d.Buried([]string{"B"}, 600)
	r.shows("", "c1", "C")
	if !named || r.store.Rev != 901 {
		t.Errorf("%v, revision %d; want 901, above every token", named, r.store.Rev)
	}
	if same, named := r.store.Buried([]string{"B", "D"}, 2000); named || same.Rev != 901 {
		t.Errorf("%v, revision %d, of a document that names none of them", named, same.Rev)
	}
}

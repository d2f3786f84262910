package mutex_test

import (
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

// weakening is one rule left out. It changes what goes into the machines or comes out of them, never anything in them.
type weakening uint8

const (
	none weakening = iota
	queueApart
	holderBySession
	noHighMark
	startsUnanswered
	believesUnanswered
	claimsUnconditioned
	releasesUnconditioned
	startsAfterD
	holdsAfterD
	believesDeathEarly
	overtakesSlow
	deadNotPassed
	deadLeft
	giverMakesHolder
	ghostStays
	nameStays
	sizeUnchecked
	readerOverWriter
	unfairOverNext
	noneNotified
	holdDies
	holdByClockOnly
	holdEndsNow
	holdNotApart
	buriesSilent
	unseenAlive
	queuedLast
	staleLook
)

// alias stands before the name of a session that a weakened process does not know for its own.
const alias = "?"

// given marks a holder that somebody else made one.
const given = 7

// aYear is longer than any search.
const aYear = 365 * 86_400_000

// large is a claim's name of which two do not fit into a document.
const large = 33_000

var padding = strings.Repeat("x", large)

// unseen is how many bytes of a document its machine does not know of.
func (w *world) unseen(d protocol.MutexDoc) int {
	if w.without == sizeUnchecked {
		return large * (len(d.Holders) + len(d.Queue))
	}
	return 0
}

// believedDead says whether a process may learn that a session is dead.
func (w *world) believedDead(session string) bool {
	switch w.without {
	case believesDeathEarly:
		return true
	case overtakesSlow:
		return w.gone(session) || !slices.ContainsFunc(w.store.Holders, func(h protocol.MutexHolder) bool {
			return h.Session == session
		})
	case deadNotPassed:
		return false
	default:
		return w.gone(session)
	}
}

// buried is the document as a bystander leaves it, who takes out the dead. false: it names none.
func (w *world) buried() (protocol.MutexDoc, bool) {
	var dead []string
	w.store.Sessions(func(s string) {
		if w.gone(s) || w.without == buriesSilent {
			dead = append(dead, s)
		}
	})
	return w.store.Buried(dead, 0)
}

// buriesOnly says whether a process writes only to take out the dead: each of its calls is as it was.
func buriesOnly(m protocol.Mutex, after protocol.MutexDoc) bool {
	before := m.Doc
	for _, c := range m.Calls {
		if holds(before, c.Claim) != holds(after, c.Claim) ||
			ticketOf(before, c.Claim) < 0 != (ticketOf(after, c.Claim) < 0) {
			return false
		}
	}
	return len(m.Calls) > 0 && len(after.Holders)+len(after.Queue) < len(before.Holders)+len(before.Queue)
}

// seen is the document as a process without a rule takes it.
func (w *world) seen(p int, d protocol.MutexDoc) protocol.MutexDoc {
	switch w.without {
	case queueApart:
		if !slices.ContainsFunc(d.Queue, func(t protocol.MutexTicket) bool { return t.Session == w.session(p) }) {
			d.Queue = nil // as it was before anybody waited
		}
	case holderBySession:
		d = w.mistaken(p, d)
	case ghostStays, giverMakesHolder:
		d = w.blind(p, d)
	case readerOverWriter:
		d = flagged(d, func(protocol.MutexTicket) bool { return true })
	case unfairOverNext:
		d.Next = ""
	case holdDies:
		for q := range w.n {
			if q != p && w.gone(w.session(q)) {
				d.Hold = protocol.MutexHold{}
			}
		}
	case holdByClockOnly:
		if d.Hold.ForMs > 0 {
			d.Hold.ForMs = aYear
		}
	case holdNotApart:
		d.Hold.Left = false
	default:
	}
	return d
}

// written is what a process without a rule writes.
func (w *world) written(p int, d protocol.MutexDoc) protocol.MutexDoc {
	switch w.without {
	case queueApart:
		mine := d.Queue
		d.Queue = slices.DeleteFunc(slices.Clone(w.store.Queue), func(t protocol.MutexTicket) bool {
			return holds(d, t.Claim)
		})
		for _, t := range mine {
			if ticketOf(w.store, t.Claim) < 0 && w.procs[p].m.Session == t.Session {
				d = d.Queued(t)
			}
		}
	case ghostStays:
		d = unblind(d)
	case giverMakesHolder:
		if d = unblind(d); len(d.Queue) > 0 && len(d.Holders) == 0 {
			t := d.Queue[0]
			d.Queue = d.Queue[1:]
			d.Holders = []protocol.MutexHolder{{Session: t.Session, Claim: t.Claim, Token: d.Rev, Slot: given}}
			d.Next = t.Session // it is notified
		}
	case nameStays:
		d.Queue = slices.Clone(d.Queue)
		for i, t := range d.Queue {
			if at := ticketOf(w.store, t.Claim); at >= 0 {
				d.Queue[i].Session = w.store.Queue[at].Session
			}
		}
	case noneNotified:
		d.Next = ""
	case holdEndsNow:
		if was := w.store.Hold; d.Hold.Same(was) && d.Hold.UntilMs < was.UntilMs {
			d.Hold.UntilMs = w.clock()
		}
	case queuedLast:
		d = w.placed(p, d, func(int) int64 { return 0 })
	case staleLook:
		d = w.placed(p, d, func(c int) int64 { return w.calls[c].known })
	case readerOverWriter:
		d = flagged(d, func(t protocol.MutexTicket) bool { return w.asks[callOf(t.Claim)].ask.Shared })
	default:
	}
	return d
}

// placed gives the new tickets of a process the places of those that have seen so much.
func (w *world) placed(p int, d protocol.MutexDoc, seen func(c int) int64) protocol.MutexDoc {
	all := d.Queue
	fresh := func(t protocol.MutexTicket) bool { return ticketOf(w.procs[p].m.Doc, t.Claim) < 0 }
	d.Queue = slices.DeleteFunc(slices.Clone(all), fresh)
	for _, t := range all {
		if fresh(t) {
			t.Seen = seen(callOf(t.Claim))
			d = d.Queued(t)
		}
	}
	return d
}

func flagged(d protocol.MutexDoc, shared func(protocol.MutexTicket) bool) protocol.MutexDoc {
	d.Queue = slices.Clone(d.Queue)
	for i, t := range d.Queue {
		d.Queue[i].Shared = shared(t)
	}
	return d
}

// mistaken shows the holder of the process's own session as a claim of another call of it.
func (w *world) mistaken(p int, d protocol.MutexDoc) protocol.MutexDoc {
	d.Holders = slices.Clone(d.Holders)
	for i, h := range d.Holders {
		for _, c := range w.procs[p].m.Calls {
			if h.Session == w.session(p) && c.Phase == protocol.CallWaiting {
				d.Holders[i].Claim = c.Claim
			}
		}
	}
	return d
}

// blind shows what the process has no call for as another's.
func (w *world) blind(p int, d protocol.MutexDoc) protocol.MutexDoc {
	strange := func(session, claim string) bool {
		return session == w.session(p) && !slices.ContainsFunc(w.procs[p].m.Calls, func(c protocol.MutexCall) bool {
			return c.Claim == claim
		})
	}
	d.Holders, d.Queue = slices.Clone(d.Holders), slices.Clone(d.Queue)
	for i, h := range d.Holders {
		if strange(h.Session, h.Claim) && (w.without == ghostStays || h.Slot == given) {
			d.Holders[i].Session = alias + h.Session
		}
	}
	for i, t := range d.Queue {
		if w.without == ghostStays && strange(t.Session, t.Claim) {
			d.Queue[i].Session = alias + t.Session
		}
	}
	return d
}

func unblind(d protocol.MutexDoc) protocol.MutexDoc {
	d.Holders, d.Queue = slices.Clone(d.Holders), slices.Clone(d.Queue)
	for i := range d.Holders {
		d.Holders[i].Session = strings.TrimPrefix(d.Holders[i].Session, alias)
	}
	for i := range d.Queue {
		d.Queue[i].Session = strings.TrimPrefix(d.Queue[i].Session, alias)
	}
	d.Next = strings.TrimPrefix(d.Next, alias)
	return d
}

// weak is a weakening, the rule it leaves out, a scenario in which that shows, and the promise that then fails.
type weak struct {
	name    string
	rule    string
	by      weakening
	setting setting
	left    budget
	breaks  string
}

// calls are calls of Lock, each by the process of its number.
func calls(ask protocol.MutexRequest, procs ...int) []call {
	var all []call
	for _, p := range procs {
		all = append(all, call{p: p, ask: ask})
	}
	return all
}

var (
	aMutex = protocol.MutexRequest{Limit: 1}
	writer = protocol.MutexRequest{}
	reader = protocol.MutexRequest{Shared: true}
	unfair = protocol.MutexRequest{Limit: 1, Unfair: true}
	asTwo  = protocol.MutexRequest{Limit: 2}
	trying = protocol.MutexRequest{Limit: 1, Try: true}
	aWhile = protocol.MutexRequest{Limit: 1, AtLeast: time.Second}
)

func two(calls ...call) setting   { return setting{n: 2, asks: calls} }
func three(calls ...call) setting { return setting{n: 3, asks: calls} }

func padded(s setting) setting {
	s.pad = large
	return s
}

func setBack(s setting) setting {
	s.back = true
	return s
}

// weaknesses are all rules left out. Each must be caught.
func weaknesses() []weak {
	one := two(calls(aMutex, 0, 1)...)
	return []weak{
		{
			"queue-apart", "holders and queue are one document", queueApart,
			three(calls(aMutex, 0, 1, 2)...),
			budget{},
			order,
		},
		{"start-unanswered", "a claim counts once it is acknowledged", startsUnanswered, one, budget{}, exclusion},
		{
			"believe-unanswered", "what was not answered is repeated, until it is", believesUnanswered,
			one,
			budget{loses: 1},
			"M1",
		},
		{
			"holder-by-session", "mine is what carries my claim", holderBySession,
			two(calls(aMutex, 0, 1, 0)...),
			budget{},
			order,
		},
		{
			"no-high-mark", "the token of a new document exceeds the high-water mark", noHighMark,
			one,
			budget{deletes: 1},
			tokens,
		},
		{
			"claim-unconditioned", "a claim is conditioned on the document as read", claimsUnconditioned, one,
			budget{},
			"M1",
		},
		{
			"release-unconditioned", "a release goes on from the document that the refusal showed",
			releasesUnconditioned, one,
			budget{},
			place,
		},
		{"start-after-D", "a claim starts nothing after D", startsAfterD, one, budget{expires: 1}, "M1"},
		{"hold-after-D", "at D every hold is lost", holdsAfterD, one, budget{expires: 1}, "M1"},
		{
			"death-believed-early", "a session is dead when its document says so", believesDeathEarly,
			one,
			budget{},
			"M1",
		},
		{
			"slow-overtaken", "a waiter is passed over when dead, not when slow", overtakesSlow,
			three(calls(aMutex, 0, 1, 2)...),
			budget{},
			place,
		},
		{"none-notified", "the process that releases says who may enter", noneNotified, one, budget{}, stuck},
		{"dead-not-passed", "a dead waiter is passed over", deadNotPassed, one, budget{dies: 1}, stuck},
		{
			"dead-left", "who waits behind a dead one takes it out", deadLeft,
			three(calls(aMutex, 0, 1, 2)...),
			budget{dies: 1},
			stuck,
		},
		{
			"giver-makes-holder", "only the receiver makes itself a holder (next to the rule that it declines)",
			giverMakesHolder, one,
			budget{gives: 1},
			ghost,
		},
		{"ghost-stays", "a ticket no call waits on is declined at once", ghostStays, one, budget{gives: 1}, stuck},
		{
			"name-stays", "a new session puts its name into the tickets of the one before", nameStays,
			one,
			budget{expires: 1},
			name,
		},
		{
			"size-unchecked", "the document has a largest size", sizeUnchecked,
			one,
			budget{},
			size,
		},
		{
			"reader-over-writer", "a reader enters where no writer waits before it", readerOverWriter,
			three(call{p: 0, ask: reader}, call{p: 1, ask: writer}, call{p: 2, ask: reader}),
			budget{},
			order,
		},
		{
			"unfair-over-next", "who is unfair enters where no one was notified", unfairOverNext,
			three(call{p: 0, ask: aMutex}, call{p: 1, ask: aMutex}, call{p: 2, ask: unfair}),
			budget{},
			order,
		},
		{
			"hold-dies", "a hold outlives its session", holdDies,
			two(call{p: 0, ask: aWhile}, call{p: 1, ask: aMutex}),
			budget{dies: 1},
			early,
		},
		{
			"hold-by-clock-only", "a hold ends after its time, also when the store's clock is set back",
			holdByClockOnly,
			setBack(two(call{p: 0, ask: aWhile}, call{p: 1, ask: aMutex})),
			budget{passes: 1},
			stuck,
		},
		{
			"hold-not-set-right", "a hold that is further off than it is long is set right before a call is refused",
			holdByClockOnly,
			setBack(two(call{p: 0, ask: aWhile}, call{p: 1, ask: trying})),
			budget{passes: 1},
			far,
		},
		{
			"hold-ends-now", "a hold that is set right lasts for its length from then on", holdEndsNow,
			setBack(two(call{p: 0, ask: aWhile}, call{p: 1, ask: aMutex})),
			budget{passes: 1},
			early,
		},
		{
			"hold-not-apart", "what is wished when the holder leaves is another hold than that of its claim",
			holdNotApart,
			setBack(two(call{p: 0, ask: aWhile, detach: true}, call{p: 1, ask: aMutex})),
			budget{passes: 2},
			early,
		},
		{
			"detach-unanswered", "what keeps a mutex counts once it is written", believesUnanswered,
			two(call{p: 0, ask: aMutex, detach: true}, call{p: 1, ask: aMutex}),
			budget{loses: 1},
			unkept,
		},
		{
			"bury-silent", "a bystander takes out who is marked dead, not who is silent", buriesSilent,
			one,
			budget{buries: 1},
			shown,
		},
		{
			"queued-last", "a ticket is placed before those that have seen more", queuedLast,
			three(calls(aMutex, 0, 1, 2)...),
			budget{},
			later,
		},
		{
			"stale-look", "a ticket has seen what was shown after its call", staleLook,
			three(calls(aMutex, 0, 1, 2, 0)...),
			budget{},
			later,
		},
		{
			"unseen-alive", "a call that does not wait is refused for who was seen to live", unseenAlive,
			two(call{p: 0, ask: aMutex}, call{p: 1, ask: trying}),
			budget{dies: 1},
			busy,
		},
	}
}

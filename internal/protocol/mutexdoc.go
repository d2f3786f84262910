package protocol

import "slices"

// What a mutex's document may hold.
const (
	MaxTickets   = 1000     // waiting calls
	MaxMutexSize = 64 << 10 // bytes, counted by [MutexDoc.Size]

	mutexSize   = 256 // bytes of everything but sessions, holders and tickets
	sessionSize = 3   // bytes of a session beside its name, which stands in the document once
	holderSize  = 132 // bytes of a holder beside the name of its claim
	ticketSize  = 28  // bytes of a ticket of a writer, beside the name of its claim and what it has seen
	sharedSize  = 14  // bytes more of a ticket of a reader
	seenSize    = 8   // bytes, beside the digits, of what a ticket has seen more than the one before it

	// entering is how many bytes a ticket grows by at most when it becomes a holder.
	entering = holderSize - ticketSize
)

// unused is how long the document of a mutex stays that no one holds, waits for or keeps: 24 h in ms.
const unused = 24 * 60 * 60 * 1000

// MutexDoc is the document of a mutex, a read-write lock or a semaphore. It is a value: nothing changes a slice of it
// in place. The zero value is an absent document.
type MutexDoc struct {
	Rev int64 // 0: absent

	Limit   int // so many may hold it; 0: readers together, or one writer
	Holders []MutexHolder
	Queue   []MutexTicket // first come, first served: none has seen more than the one after it
	Next    string        // session of the first ticket that may enter; its process alone is notified
	Hold    MutexHold     // no one enters before
	// Exclusive and Shared are the largest tokens given to a writer (or a holder of a semaphore) and to a reader. A
	// new token exceeds both, also where somebody put back an older document.
	Exclusive, Shared int64
}

// MutexHolder is who holds a mutex. Claim says whose it is; the writer of the document may be somebody else.
type MutexHolder struct {
	Session, Claim string
	Token          int64 // the revision that its claim wrote
	Shared         bool  // a reader
	Slot           int   // of a semaphore, from 0 up to its limit
	Until          int64 // for display: when its maximum hold time ends, by the store's clock, Unix ms; 0: never
	Since          int64 // for display: when its claim was sent, by the store's clock, Unix ms; 0: not known
}

// MutexTicket is a place in the queue.
type MutexTicket struct {
	Session, Claim string
	Shared         bool // a reader
	// Seen is the revision of the document that its process was shown first after the call was made; 0: it was absent.
	// Who has seen less is before who has seen more.
	Seen int64
}

// MutexHold keeps a mutex without anybody who holds it, or longer than somebody does. It outlives its session. Others
// enter when the store's clock has passed UntilMs, or when ForMs has passed since they saw it first. The zero value
// keeps nothing.
//
// A hold that is further off than ForMs was wished while the store's clock was ahead. Whoever asks for the mutex sets
// its UntilMs right, so that a call that does not wait is not refused until that clock is there again.
type MutexHold struct {
	UntilMs, ForMs int64
	Token          int64 // of the holder that wished it
	Left           bool  // wished when the holder left; false: with its claim
}

// Same reports whether two holds are one, also after it was set right: everything but its end stays.
func (h MutexHold) Same(other MutexHold) bool {
	h.UntilMs = other.UntilMs
	return h == other
}

// clockDiffers is by how much processes may differ, in ms, in what they know of the store's clock.
const clockDiffers = 10_000

// ahead reports whether a hold is further off than it is long.
func (h MutexHold) ahead(clock int64) bool { return h.UntilMs-clock > h.ForMs+clockDiffers }

// Session is the only holder's session; empty when there is none or several.
func (d MutexDoc) Session() string {
	if len(d.Holders) != 1 {
		return ""
	}
	return d.Holders[0].Session
}

// Expires is when the document may be deleted, in ms of the store's clock: 0 while somebody holds it or waits.
func (d MutexDoc) Expires(clock int64) int64 {
	if d.used() {
		return 0
	}
	return max(clock, d.Hold.UntilMs) + unused
}

// Size is at least as many bytes as the body of the document takes as JSON.
func (d MutexDoc) Size() int {
	n := mutexSize
	last, named := "", map[string]bool{}
	d.Sessions(func(session string) {
		if session != last && !named[session] {
			named[session] = true
			n += sessionSize + len(session)
		}
		last = session
	})
	for _, h := range d.Holders {
		n += holderSize + len(h.Claim)
	}
	seen := int64(0)
	for _, t := range d.Queue {
		n += t.size(seen)
		seen = t.Seen
	}
	return n
}

// size is how many bytes a ticket takes at most behind one that has seen so much.
func (t MutexTicket) size(seen int64) int {
	n := ticketSize + len(t.Claim)
	if t.Shared {
		n += sharedSize
	}
	if t.Seen > seen {
		n += seenSize
		for more := t.Seen - seen; more > 0; more /= 10 {
			n++
		}
	}
	return n
}

// Sessions calls do for each session that the document names, in order; some more than once.
func (d MutexDoc) Sessions(do func(session string)) {
	for _, h := range d.Holders {
		do(h.Session)
	}
	for _, t := range d.Queue {
		do(t.Session)
	}
}

func (d MutexDoc) used() bool { return len(d.Holders)+len(d.Queue) > 0 }

func (d MutexDoc) holder(claim string) int {
	return slices.IndexFunc(d.Holders, func(h MutexHolder) bool { return h.Claim == claim })
}

func (d MutexDoc) ticket(claim string) int {
	return slices.IndexFunc(d.Queue, func(t MutexTicket) bool { return t.Claim == claim })
}

// claims says which claims the document shows, to somebody who asks so often.
func (d MutexDoc) claims(questions int) func(claim string) bool {
	if questions <= few {
		return func(claim string) bool { return d.holder(claim) >= 0 || d.ticket(claim) >= 0 }
	}
	there := make(map[string]bool, d.entries())
	for _, h := range d.Holders {
		there[h.Claim] = true
	}
	for _, t := range d.Queue {
		there[t.Claim] = true
	}
	return func(claim string) bool { return there[claim] }
}

// fits says whether those who hold the mutex let one more hold it.
func (d MutexDoc) fits(shared bool) bool {
	switch {
	case d.Limit > 0:
		return len(d.Holders) < d.Limit
	case shared:
		return !slices.ContainsFunc(d.Holders, func(h MutexHolder) bool { return !h.Shared })
	}
	return len(d.Holders) == 0
}

// mayEnter says whether the ticket at i may become a holder. It never takes what a ticket before it could have: a
// reader enters only where no writer is before it, and a place of a semaphore is left for each of those before.
func (d MutexDoc) mayEnter(i int) bool {
	if d.Limit > 0 {
		return len(d.Holders)+i < d.Limit
	}
	if t := d.Queue[i]; !t.Shared {
		return i == 0 && d.fits(false)
	}
	return d.fits(true) && !writerIn(d.Queue[:i])
}

func writerIn(queue []MutexTicket) bool {
	return slices.ContainsFunc(queue, func(t MutexTicket) bool { return !t.Shared })
}

// Queued is d with one more ticket, before those that have seen more than it has.
func (d MutexDoc) Queued(t MutexTicket) MutexDoc {
	at := len(d.Queue)
	for at > 0 && d.Queue[at-1].Seen > t.Seen {
		at--
	}
	d.Queue = slices.Insert(slices.Clip(d.Queue), at, t)
	return d
}

// full says whether one more ticket of these names is too many. The size must allow a ticket to enter, or
// none ever could.
func (d MutexDoc) full(t MutexTicket) bool {
	return len(d.Queue) >= MaxTickets || d.Queued(t).atLimit()
}

// atLimit says whether no ticket can enter until a holder leaves, since the document would become too large.
func (d MutexDoc) atLimit() bool { return d.Size()+entering > MaxMutexSize }

// entered is d with a holder, whose ticket is gone. The hold before it is over.
func (d MutexDoc) entered(h MutexHolder) MutexDoc {
	d = d.left(h.Claim)
	h.Slot = d.slot()
	d.Holders = append(slices.Clip(d.Holders), h)
	d.Hold = MutexHold{}
	if h.Shared {
		d.Shared = max(d.Shared, h.Token)
	} else {
		d.Exclusive = max(d.Exclusive, h.Token)
	}
	return d
}

// slot is the lowest that no holder of a semaphore has.
func (d MutexDoc) slot() int {
	if d.Limit == 0 {
		return 0
	}
	for slot := 0; ; slot++ {
		if !slices.ContainsFunc(d.Holders, func(h MutexHolder) bool { return h.Slot == slot }) {
			return slot
		}
	}
}

// left is d without the holder and the ticket of this claim.
func (d MutexDoc) left(claim string) MutexDoc {
	return d.without(func(_, c string) bool { return c == claim })
}

// withoutDead is d without the holders and tickets of these sessions.
func (d MutexDoc) withoutDead(dead []string) MutexDoc {
	if len(dead) == 0 {
		return d
	}
	return d.without(func(session, _ string) bool { return slices.Contains(dead, session) })
}

// Buried is d without dead sessions, as anyone may write it where no waiter does. clock is the store's time
// for revisions, in ms. false: d names none of them.
func (d MutexDoc) Buried(dead []string, clock int64) (MutexDoc, bool) {
	left := d.withoutDead(dead)
	if left.entries() == d.entries() {
		return d, false
	}
	left.Rev = d.nextRev(clock)
	return left.passedOn(), true
}

// nextRev is the revision of the next write: above the tokens that were given as well.
func (d MutexDoc) nextRev(clock int64) int64 {
	return NextRev(max(d.Rev, d.Exclusive, d.Shared), clock)
}

// without is d without the holders and tickets of which gone says so. Where there are none, it is d itself.
func (d MutexDoc) without(gone func(session, claim string) bool) MutexDoc {
	if of := func(h MutexHolder) bool { return gone(h.Session, h.Claim) }; slices.ContainsFunc(d.Holders, of) {
		d.Holders = slices.DeleteFunc(slices.Clone(d.Holders), of)
	}
	if of := func(t MutexTicket) bool { return gone(t.Session, t.Claim) }; slices.ContainsFunc(d.Queue, of) {
		d.Queue = slices.DeleteFunc(slices.Clone(d.Queue), of)
	}
	return d
}

// renamed is d with this session in the holders and tickets of the claims.
func (d MutexDoc) renamed(session string, mine func(claim string) bool) MutexDoc {
	d.Holders, d.Queue = slices.Clone(d.Holders), slices.Clone(d.Queue)
	for i, h := range d.Holders {
		if mine(h.Claim) {
			d.Holders[i].Session = session
		}
	}
	for i, t := range d.Queue {
		if mine(t.Claim) {
			d.Queue[i].Session = session
		}
	}
	return d
}

// passedOn is d with Next at the first ticket that may enter.
func (d MutexDoc) passedOn() MutexDoc {
	d.Next = ""
	if d.atLimit() {
		return d
	}
	for i, t := range d.Queue {
		if d.mayEnter(i) {
			d.Next = t.Session
			break
		}
	}
	return d
}

// entries is how many holders and tickets there are.
func (d MutexDoc) entries() int { return len(d.Holders) + len(d.Queue) }

package protocol

import "time"

// Peer is another session as seen from here. The zero value has never been seen.
type Peer struct {
	Known     bool
	State     State
	Rev       int64
	Heartbeat int64
	Lease     time.Duration // T of its process
	Seen      Instant       // when the reply that first showed this heartbeat arrived, or ages were started again
	Gone      bool          // a linearizable read found no document; Seen is when
	Writing   bool          // a kill is out and not answered
	Repeat    bool          // a kill's answer was lost: the same again, until answered
	KillRev   int64         // the revision that kill is conditioned on
	KillNew   int64         // and the one it writes
	Reading   bool          // a linearizable read is under way
	DeadAt    Instant       // when the reply that first showed it dead arrived
}

// PeerEventKind is what happened to a peer.
type PeerEventKind uint8

// What can happen to a peer.
const (
	PeerTick    PeerEventKind = iota
	PeerSeen                  // a reply showed its document
	PeerMissing               // a linearizable read found none
	PeerUnread                // that read failed
	PeerWanted                // a lock names it, or it was known, and the list does not show it
	PeerAnswer                // of a kill
	PeerReset                 // own reads or heartbeats failed for longer than T/4 and work again: all ages start again
	PeerEnded                 // its process is known to be gone and nothing of it left (restart in place)
)

// PeerEvent is an event for a peer. Which fields count depends on Kind.
type PeerEvent struct {
	Kind      PeerEventKind
	State     State
	Rev       int64
	Heartbeat int64
	Lease     time.Duration
	// PeerSeen: from a linearizable read, so a lower revision is the truth (a document restored)
	Sure     bool
	Status   Status        // PeerAnswer
	Clock    int64         // the store's time in ms as last reported, for the revision of a kill
	Patience time.Duration // PeerTick: the largest T of all members known, for a missing session
}

// PeerActionKind is what a peer wants done.
type PeerActionKind uint8

// What a peer wants done.
const (
	KillPeer PeerActionKind = iota // write state dead from IfRev to NewRev; IfRev 0: create the document as dead
	ReadPeer                       // read its document, linearizably
	PeerDied                       // it is known to be dead: its keys are free
)

// PeerAction is one thing to do.
type PeerAction struct {
	Kind          PeerActionKind
	IfRev, NewRev int64
}

// Dead says whether its keys are free. Only a document that says so makes it true.
func (q Peer) Dead() bool { return q.Known && q.State == Dead }

// Step is one event at one moment. now of PeerSeen is when the reply arrived.
func (q Peer) Step(p Params, ev PeerEvent, now Instant) (Peer, []PeerAction) {
	if q.Dead() {
		return q.buried(ev)
	}
	switch ev.Kind {
	case PeerSeen:
		return q.seen(ev, now)
	case PeerMissing:
		q.Reading = false
		if !q.Gone {
			q.Gone, q.Known, q.Seen, q.Rev, q.Heartbeat = true, true, now, 0, 0
			q.State, q.Repeat = Absent, false
		}
	case PeerUnread:
		q.Reading = false
	case PeerWanted:
		if !q.Gone && !q.Reading && !q.Writing {
			q.Reading = true
			return q, []PeerAction{{Kind: ReadPeer}}
		}
	case PeerAnswer:
		return q.answer(ev, now)
	case PeerReset:
		q.Seen = now
	case PeerEnded:
		if q.Known && !q.Gone && !q.Writing && !q.Reading {
			return q.kill(q.Rev, ev.Clock)
		}
	case PeerTick:
		return q.tick(p, ev, now)
	}
	return q, nil
}

// buried is a session that was seen dead: its keys are free here, for ever. It must not live on in the eyes of
// others, so one that somebody has written live again is marked dead once more, at once. No session does that to
// itself.
func (q Peer) buried(ev PeerEvent) (Peer, []PeerAction) {
	switch {
	case ev.Kind == PeerSeen && ev.State != Dead && ev.Rev > q.Rev && !q.Writing:
		return q.kill(ev.Rev, ev.Clock)
	case ev.Kind == PeerAnswer && q.Writing:
		q.Writing = false
		if ev.Status == Applied {
			q.Rev = q.KillNew
		}
	}
	return q, nil
}

func (q Peer) seen(ev PeerEvent, now Instant) (Peer, []PeerAction) {
	q.Reading = false
	if q.Known && !q.Gone && ev.Rev < q.Rev && ev.State != Dead && !ev.Sure {
		return q, nil // an older reply, overtaken
	}
	if !q.Known || q.Gone || ev.Heartbeat != q.Heartbeat || ev.Rev != q.Rev {
		q.Seen, q.Repeat = now, false
	}
	q.Known, q.Gone = true, false
	q.State, q.Rev, q.Heartbeat, q.Lease = ev.State, ev.Rev, ev.Heartbeat, ev.Lease
	if ev.State == Dead {
		q.DeadAt = now
		return q, []PeerAction{{Kind: PeerDied}}
	}
	return q, nil
}

func (q Peer) answer(ev PeerEvent, now Instant) (Peer, []PeerAction) {
	if !q.Writing {
		return q, nil
	}
	q.Writing = false
	switch ev.Status {
	case Applied:
		q.Known, q.Gone, q.Repeat = true, false, false
		q.State, q.Rev, q.DeadAt = Dead, q.KillNew, now
		return q, []PeerAction{{Kind: PeerDied}}
	case Refused:
		q.Repeat, q.Reading = false, true
		q.Seen = now
		return q, []PeerAction{{Kind: ReadPeer}}
	case Unknown, Unwritable:
		q.Repeat = true
	}
	return q, nil
}

func (q Peer) tick(p Params, ev PeerEvent, now Instant) (Peer, []PeerAction) {
	if !q.Known || q.Writing || q.Reading {
		return q, nil
	}
	if q.Repeat {
		return q.send()
	}
	patience := max(p.T, q.Lease)
	if q.Gone {
		patience = max(patience, ev.Patience)
	}
	if now.KillerElapsed(q.Seen) < patience {
		return q, nil
	}
	return q.kill(q.Rev, ev.Clock) // 0 when it is missing: create it as dead
}

func (q Peer) kill(rev, clock int64) (Peer, []PeerAction) {
	q.KillRev, q.KillNew = rev, DeadRev(rev, clock)
	return q.send()
}

// send sends the kill, or the very same again.
func (q Peer) send() (Peer, []PeerAction) {
	q.Writing = true
	return q, []PeerAction{{Kind: KillPeer, IfRev: q.KillRev, NewRev: q.KillNew}}
}

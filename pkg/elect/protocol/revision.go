package protocol

// Revisions. Each write of a document takes a revision above the one it is conditioned on. Where the store's clock is
// known, the revision is also at least that clock. The clock is the largest time in ms that a reply of the store has
// reported, never carried on locally.
//
// A session is written alive at even revisions and dead at odd ones. A heartbeat is conditioned on a revision that its
// own session wrote alive. So no record of its death can ever stand there, whatever clocks, delays and deletions did.

// NextRev is the revision that a write of a lock at rev makes: the larger of rev + 1 and the store's time in
// milliseconds. So tokens rise also over a lock that was deleted out of band.
func NextRev(rev, clock int64) int64 { return max(rev+1, clock) }

// AliveRev is the revision at which a session's process writes itself alive: the smallest even one that [NextRev]
// allows.
func AliveRev(rev, clock int64) int64 {
	next := NextRev(rev, clock)
	return next + next&1
}

// DeadRev is the revision at which anybody writes a session dead: the smallest odd one that [NextRev] allows.
func DeadRev(rev, clock int64) int64 { return NextRev(rev, clock) | 1 }

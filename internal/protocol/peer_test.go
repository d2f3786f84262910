package protocol_test

import (
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

// aPeer drives one observed session's machine along a line of time.
type aPeer struct {
	t *testing.T
	p protocol.Params
	protocol.Peer
}

func newPeer(t *testing.T) *aPeer {
	t.Helper()
	return &aPeer{t: t, p: params(t)}
}

func (q *aPeer) do(at time.Duration, ev protocol.PeerEvent) []protocol.PeerAction {
	var acts []protocol.PeerAction
	q.Peer, acts = q.Step(q.p, ev, instant(at))
	return acts
}

func (q *aPeer) seen(at time.Duration, rev int64, state protocol.State) []protocol.PeerAction {
	return q.do(at, protocol.PeerEvent{Kind: protocol.PeerSeen, State: state, Rev: rev, Heartbeat: rev, Lease: lease})
}

func (q *aPeer) tick(at time.Duration) []protocol.PeerAction {
	return q.do(at, protocol.PeerEvent{Kind: protocol.PeerTick})
}

func (q *aPeer) answer(at time.Duration, s protocol.Status) []protocol.PeerAction {
	return q.do(at, protocol.PeerEvent{Kind: protocol.PeerAnswer, Status: s})
}

func (q *aPeer) wants(got []protocol.PeerAction, kinds ...protocol.PeerActionKind) {
	q.t.Helper()
	var have []protocol.PeerActionKind
	for _, a := range got {
		have = append(have, a.Kind)
	}
	if !slices.Equal(have, kinds) {
		q.t.Fatalf("actions %v, want %v; state %+v", have, kinds, q.Peer)
	}
}

func TestPeerIsKilledAfterTOfSilenceAndNotBefore(t *testing.T) {
	q := newPeer(t)
	q.seen(0, 5, protocol.Live)
	q.seen(lease/2, 5, protocol.Live) // the same heartbeat again: nothing new
	q.wants(q.tick(lease - 1))
	acts := q.tick(lease)
	q.wants(acts, protocol.KillPeer)
	if acts[0].IfRev != 5 {
		t.Errorf("conditioned on revision %d, seen 5", acts[0].IfRev)
	}
	if q.Dead() {
		t.Error("dead before the kill is acknowledged")
	}
	q.wants(q.tick(lease + 1)) // one kill at a time
	q.wants(q.answer(lease+2, protocol.Applied), protocol.PeerDied)
	if !q.Dead() || q.DeadAt != instant(lease+2) {
		t.Errorf("%+v", q.Peer)
	}
}

func TestPeerHeartbeatRestartsItsAge(t *testing.T) {
	q := newPeer(t)
	q.seen(0, 5, protocol.Live)
	q.seen(lease-1, 6, protocol.Draining)
	q.wants(q.tick(2*lease - 2))
	q.wants(q.tick(2*lease-1), protocol.KillPeer)
}

func TestPeerPatienceIsTheLargerT(t *testing.T) {
	q := newPeer(t)
	q.do(0, protocol.PeerEvent{Kind: protocol.PeerSeen, State: protocol.Live, Rev: 1, Heartbeat: 1, Lease: 3 * lease})
	q.wants(q.tick(3*lease - 1))
	q.wants(q.tick(3*lease), protocol.KillPeer)

	short := newPeer(t)
	short.do(
		0, protocol.PeerEvent{Kind: protocol.PeerSeen, State: protocol.Live, Rev: 1, Heartbeat: 1, Lease: time.Second},
	)
	short.wants(short.tick(lease - 1))
	short.wants(short.tick(lease), protocol.KillPeer)
}

func TestPeerAgeTakesTheSmallerClock(t *testing.T) {
	q := newPeer(t)
	q.seen(0, 5, protocol.Live)
	asleep := protocol.Instant{Mono: instant(1).Mono, Boot: instant(10 * lease).Boot}
	_, acts := q.Step(q.p, protocol.PeerEvent{Kind: protocol.PeerTick}, asleep)
	q.wants(acts)
}

func TestPeerAgesRestartAfterAnOwnOutage(t *testing.T) {
	q := newPeer(t)
	q.seen(0, 5, protocol.Live)
	q.do(lease-1, protocol.PeerEvent{Kind: protocol.PeerReset})
	q.wants(q.tick(2*lease - 2))
	q.wants(q.tick(2*lease-1), protocol.KillPeer)
}

func TestPeerOlderReplyIsIgnored(t *testing.T) {
	q := newPeer(t)
	q.seen(0, 6, protocol.Live)
	q.seen(lease/2, 5, protocol.Live)
	if q.Rev != 6 {
		t.Errorf("revision %d", q.Rev)
	}
	q.wants(q.tick(lease), protocol.KillPeer)

	restored := newPeer(t)
	restored.seen(0, 6, protocol.Live)
	restored.do(lease/2, protocol.PeerEvent{
		Kind: protocol.PeerSeen, State: protocol.Live, Rev: 5, Heartbeat: 5, Lease: lease, Sure: true,
	})
	if restored.Rev != 5 || restored.Seen != instant(lease/2) {
		t.Errorf("a linearizable read of a restored document: %+v", restored.Peer)
	}
}

func TestPeerDeadIsBelievedAtAnyRevisionAndForEver(t *testing.T) {
	q := newPeer(t)
	q.seen(0, 6, protocol.Live)
	q.wants(q.seen(1, 2, protocol.Dead), protocol.PeerDied)
	q.wants(q.seen(2, 1, protocol.Live)) // an older reply
	if !q.Dead() {
		t.Error("back from the dead")
	}
}

// Somebody wrote a dead session live again. Those who know it dead have its keys: it must not go on for the others,
// nor for itself.
func TestPeerSeenDeadIsMarkedDeadAgain(t *testing.T) {
	q := newPeer(t)
	q.seen(0, 6, protocol.Live)
	q.wants(q.seen(1, 6, protocol.Dead), protocol.PeerDied)
	q.wants(q.seen(2, 7, protocol.Live), protocol.KillPeer)
	if q.KillRev != 7 || !q.Dead() {
		t.Errorf("kill at %d, dead %v", q.KillRev, q.Dead())
	}
	q.wants(q.seen(3, 8, protocol.Live)) // one write at a time
	q.wants(q.do(4, protocol.PeerEvent{Kind: protocol.PeerAnswer, Status: protocol.Refused}))
	q.wants(q.seen(5, 8, protocol.Live), protocol.KillPeer)
	q.wants(q.do(6, protocol.PeerEvent{Kind: protocol.PeerAnswer, Status: protocol.Applied}))
	q.wants(q.seen(7, 8, protocol.Live))
	q.wants(q.tick(10 * lease))
}

func TestPeerUnknownKillIsRepeatedAsItWas(t *testing.T) {
	q := newPeer(t)
	q.seen(0, 5, protocol.Live)
	first := q.tick(lease)
	q.wants(q.answer(lease+1, protocol.Unknown))
	if q.Dead() {
		t.Error("an unanswered kill is believed")
	}
	again := q.tick(lease + 2)
	q.wants(again, protocol.KillPeer)
	if first[0] != again[0] {
		t.Errorf("%+v repeated as %+v", first[0], again[0])
	}
	q.answer(lease+3, protocol.Unknown)
	q.seen(lease+4, 6, protocol.Live) // it heartbeats: the kill can no longer land
	q.wants(q.tick(lease + 5))
}

func TestPeerRefusedKillLooksAndBeginsAgain(t *testing.T) {
	q := newPeer(t)
	q.seen(0, 5, protocol.Live)
	q.tick(lease)
	q.wants(q.answer(lease+1, protocol.Refused), protocol.ReadPeer)
	q.wants(q.tick(3 * lease)) // not before the read is answered
	q.do(3*lease, protocol.PeerEvent{
		Kind: protocol.PeerSeen, State: protocol.Live, Rev: 9, Heartbeat: 9, Lease: lease, Sure: true,
	})
	q.wants(q.tick(4*lease - 1))
	q.wants(q.tick(4*lease), protocol.KillPeer)
}

func TestPeerMissing(t *testing.T) {
	wanted := protocol.PeerEvent{Kind: protocol.PeerWanted}
	missing := protocol.PeerEvent{Kind: protocol.PeerMissing}
	patient := protocol.PeerEvent{Kind: protocol.PeerTick, Patience: 2 * lease}
	q := newPeer(t)
	q.wants(q.do(0, wanted), protocol.ReadPeer)
	q.wants(q.do(1, wanted)) // one read at a time
	q.do(2, protocol.PeerEvent{Kind: protocol.PeerUnread})
	q.wants(q.do(3, wanted), protocol.ReadPeer)
	q.do(4, missing)
	q.wants(q.do(5, wanted)) // known to be missing: the age counts
	q.wants(q.do(2*lease+3, patient))
	acts := q.do(2*lease+4, patient)
	q.wants(acts, protocol.KillPeer)
	if acts[0].IfRev != 0 {
		t.Errorf("conditioned on revision %d, want absence", acts[0].IfRev)
	}
	// A duplicate: it lives, or is dead already. Only the read says.
	q.wants(q.answer(2*lease+5, protocol.Refused), protocol.ReadPeer)
	q.seen(2*lease+6, 1, protocol.Live)
	if q.Gone || q.Dead() {
		t.Errorf("%+v", q.Peer)
	}
	q.wants(q.tick(3*lease + 5))
	q.wants(q.tick(3*lease+6), protocol.KillPeer)
}

func TestPeerNeverSeenIsNotJudged(t *testing.T) {
	q := newPeer(t)
	q.wants(q.tick(100 * lease))
	q.wants(q.answer(100*lease, protocol.Applied)) // of no kill
	if q.Dead() {
		t.Error("dead without a document")
	}
}

func TestPeerEndedNeedsNoPatience(t *testing.T) {
	q := newPeer(t)
	q.seen(0, 5, protocol.Live)
	q.wants(q.do(1, protocol.PeerEvent{Kind: protocol.PeerEnded}), protocol.KillPeer)
	q.wants(q.answer(2, protocol.Applied), protocol.PeerDied)
}

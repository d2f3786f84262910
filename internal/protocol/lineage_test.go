package protocol_test

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

// In another lineage a key is kept only where its lock is as the last acknowledged write left it, or the one
// under way.
func TestKeyInDoubtIsCompared(t *testing.T) {
	for _, tc := range []struct {
		name  string
		found protocol.KeyEvent
		want  []protocol.KeyActionKind
		phase protocol.KeyPhase
	}{
		{"as it was", protocol.KeyEvent{Rev: 1000, Mine: true, Exact: true}, nil, protocol.Running},
		{"by another write", protocol.KeyEvent{Rev: 1000, Mine: true}, kinds(protocol.KillKey), protocol.Stopping},
		{"older", protocol.KeyEvent{Rev: 7, Mine: true, Exact: true}, kinds(protocol.KillKey), protocol.Stopping},
		{"another's", protocol.KeyEvent{Rev: 1000}, kinds(protocol.KillKey), protocol.Stopping},
		{"absent", protocol.KeyEvent{}, kinds(protocol.KillKey), protocol.Stopping},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := runningKey(t)
			k.wants(k.on(protocol.KeyLineageChanged), protocol.ReadKey)
			k.wants(k.on(protocol.KeyReport)) // nothing is written before
			tc.found.Kind, tc.found.OK = protocol.KeyRead, true
			got := k.do(tc.found)
			if k.Phase == protocol.Running {
				got = got[:0] // the report may go now
			}
			k.wants(got, tc.want...)
			if k.Phase != tc.phase || k.Verifying {
				t.Errorf("%+v, want phase %d verified", k.Key, tc.phase)
			}
		})
	}
}

func kinds(all ...protocol.KeyActionKind) []protocol.KeyActionKind { return all }

// A write is decided on the lock as it was. It does not go out before the comparison, and again after it.
func TestKeyInDoubtHoldsItsWriteBack(t *testing.T) {
	k := runningKey(t)
	k.wants(k.on(protocol.KeyReport), protocol.WriteKey)
	k.wants(k.on(protocol.KeyLineageChanged), protocol.ReadKey)
	if k.Sent {
		t.Error("the write counts as sent: it would go out with the next batch")
	}
	k.wants(k.answer(protocol.Applied)) // it says nothing
	k.wants(k.do(protocol.KeyEvent{Kind: protocol.KeyRead, OK: true, Mine: true, Exact: true, Rev: k.Rev}))
	k.wants(k.on(protocol.KeyTick), protocol.WriteKey)
}

func TestKeyInDoubtReadsAgainWhenTheReadFailed(t *testing.T) {
	k := runningKey(t)
	k.wants(k.on(protocol.KeyLineageChanged), protocol.ReadKey)
	k.wants(k.do(protocol.KeyEvent{Kind: protocol.KeyRead}))
	k.wants(k.on(protocol.KeyTick), protocol.ReadKey)
}

// What a claim rests on may be forgotten. One that was never acknowledged is given up, one that is made again after an
// outage is not started because it is found.
func TestKeyInDoubtStartsNoClaimThatIsFound(t *testing.T) {
	k := newKey(t)
	k.wants(k.claim(7), protocol.WriteKey)
	k.wants(k.on(protocol.KeyLineageChanged), protocol.KeyOff)

	k = runningKey(t)
	k.wants(k.on(protocol.KeyDeadline), protocol.StopKey)
	k.valid = false
	k.wants(k.on(protocol.KeyReturned))
	k.valid = true
	k.wants(k.on(protocol.KeyResume), protocol.WriteKey)
	k.wants(k.on(protocol.KeyLineageChanged), protocol.ReadKey)
	k.wants(k.answer(protocol.Applied)) // from the course before: it says nothing
	k.wants(k.do(protocol.KeyEvent{
		Kind: protocol.KeyRead, OK: true, Mine: true, Ours: true, Rev: k.NewRev,
	}), protocol.WriteKey)
	if k.Phase != protocol.Claiming || k.IfRev != 1001 {
		t.Errorf("%+v, want another claim on top of the one found", k.Key)
	}
}

// The same within one course: a claim below the gate's mark is refused, also one that is found written.
func TestKeyRefusedStartsNoClaimThatIsFound(t *testing.T) {
	k := runningKey(t)
	k.wants(k.on(protocol.KeyDeadline), protocol.StopKey)
	k.valid = false
	k.wants(k.on(protocol.KeyReturned))
	k.valid = true
	k.wants(k.on(protocol.KeyResume), protocol.WriteKey)
	low := k.NewRev
	k.wants(k.answer(protocol.Refused), protocol.ReadKey)
	k.wants(k.do(protocol.KeyEvent{
		Kind: protocol.KeyRead, OK: true, Mine: true, Ours: true, Rev: low,
	}), protocol.WriteKey)
	if k.Phase != protocol.Claiming || k.Op != protocol.Claim || k.IfRev != low || k.NewRev <= low {
		t.Errorf("%+v, want another claim on top of the one found", k.Key)
	}
}

// No heartbeat goes out, and none counts, before all keys were compared and the own document was read.
func TestSessionInDoubtSendsNoHeartbeat(t *testing.T) {
	s := openSession(t)
	s.wants(s.tick(2*time.Second), protocol.SendHeartbeat)
	s.do(2*time.Second, protocol.SessionEvent{Kind: protocol.SessionLineageChanged})
	s.wants(s.answer(3*time.Second, protocol.Applied))
	s.wants(s.tick(5 * time.Second))
	s.wants(s.do(6*time.Second, protocol.SessionEvent{Kind: protocol.SessionVerified}), protocol.ReadSession)
	if s.Acked != instant(0) {
		t.Errorf("counts from %v, want from the last heartbeat before the change", s.Acked)
	}
	s.do(6*time.Second, protocol.SessionEvent{
		Kind: protocol.SessionRead, OK: true, Rev: s.Rev - 2, Heartbeat: 0, State: protocol.Live, Mine: true,
	})
	if s.Phase != protocol.Lost || s.Lineage.Forgot {
		t.Errorf("phase %d, forgot %v: want it lost, as a failover may do", s.Phase, s.Lineage.Forgot)
	}
}

package protocol_test

import (
	"slices"
	"testing"

	"github.com/shardctl/shardctl/internal/protocol"
)

// aKey drives one key's machine; the store's clock stands at 1000 unless a test says otherwise.
type aKey struct {
	t     *testing.T
	clock int64
	valid bool
	protocol.Key
}

func newKey(t *testing.T) *aKey {
	t.Helper()
	return &aKey{t: t, clock: 1000, valid: true}
}

// runningKey is a key that was claimed at revision 7 and runs under token 1000.
func runningKey(t *testing.T) *aKey {
	t.Helper()
	k := newKey(t)
	k.wants(k.claim(7), protocol.WriteKey)
	k.wants(k.answer(protocol.Applied), protocol.StartKey)
	return k
}

func (k *aKey) do(ev protocol.KeyEvent) []protocol.KeyAction {
	ev.Clock, ev.Valid = k.clock, k.valid
	var acts []protocol.KeyAction
	k.Key, acts = k.Step(ev)
	return acts
}

func (k *aKey) on(kind protocol.KeyEventKind) []protocol.KeyAction {
	return k.do(protocol.KeyEvent{Kind: kind})
}

func (k *aKey) claim(rev int64) []protocol.KeyAction {
	return k.do(protocol.KeyEvent{Kind: protocol.KeyClaim, Rev: rev})
}

func (k *aKey) answer(s protocol.Status) []protocol.KeyAction {
	return k.do(protocol.KeyEvent{Kind: protocol.KeyAnswer, Status: s})
}

func (k *aKey) found(rev int64, mine bool) []protocol.KeyAction {
	return k.do(
		protocol.KeyEvent{Kind: protocol.KeyRead, OK: true, Rev: rev, Mine: mine, Ours: mine && rev == k.NewRev},
	)
}

func (k *aKey) wants(got []protocol.KeyAction, kinds ...protocol.KeyActionKind) {
	k.t.Helper()
	var have []protocol.KeyActionKind
	for _, a := range got {
		have = append(have, a.Kind)
	}
	if !slices.Equal(have, kinds) {
		k.t.Fatalf("actions %v, want %v; state %+v", have, kinds, k.Key)
	}
}

func (k *aKey) op(got []protocol.KeyAction, op protocol.KeyOp, ifRev, newRev int64) {
	k.t.Helper()
	k.wants(got, protocol.WriteKey)
	if a := got[0]; a.Op != op || a.IfRev != ifRev || a.NewRev != newRev {
		k.t.Fatalf("writes %+v, want op %v from %d to %d", a, op, ifRev, newRev)
	}
}

func TestKeyTokenIsTheRevisionOfTheClaim(t *testing.T) {
	for name, c := range map[string]struct{ rev, clock, want int64 }{
		"the store's time":                    {7, 1000, 1000},
		"one more, over a clock set back":     {2000, 1000, 2001},
		"over a lock that was deleted":        {0, 1000, 1000},
		"one more, at the very same moment":   {1000, 1000, 1001},
		"and with no clock at all, still one": {0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKey(t)
			k.clock = c.clock
			acts := k.claim(c.rev)
			if c.rev == 0 {
				k.wants(acts, protocol.ReadKey)
				acts = k.do(protocol.KeyEvent{Kind: protocol.KeyRead, OK: true})
			}
			k.op(acts, protocol.Claim, c.rev, c.want)
			acts = k.answer(protocol.Applied)
			k.wants(acts, protocol.StartKey)
			if acts[0].Token != c.want {
				t.Errorf("token %d, want %d", acts[0].Token, c.want)
			}
		})
	}
}

func TestKeyCreationOfALockReadsFirst(t *testing.T) {
	k := newKey(t)
	k.wants(k.claim(0), protocol.ReadKey)
	k.wants(k.on(protocol.KeyTick)) // one read at a time
	k.wants(k.do(protocol.KeyEvent{Kind: protocol.KeyRead}))
	k.wants(k.on(protocol.KeyGiveUp)) // it is seen through: somebody may want the lock to be there again
	k.wants(k.on(protocol.KeyTick), protocol.ReadKey)
	k.clock = 7_000 // the high-water mark
	k.op(k.do(protocol.KeyEvent{Kind: protocol.KeyRead, OK: true}), protocol.Claim, 0, 7_000)
	k.op(k.answer(protocol.Applied), protocol.Release, 7_000, 7_001)

	there := newKey(t)
	there.wants(there.claim(0), protocol.ReadKey)
	acts := there.do(protocol.KeyEvent{Kind: protocol.KeyRead, OK: true, Rev: 5, Mine: true})
	there.wants(acts, protocol.KeyOff)
	if !acts[0].Refused || there.Phase != protocol.Free {
		t.Errorf("%+v, phase %v: want refused and free", acts[0], there.Phase)
	}
}

func TestKeyStartsOnlyWhenAcknowledgedAndValid(t *testing.T) {
	k := newKey(t)
	k.claim(7)
	k.wants(k.on(protocol.KeyTick)) // one copy at a time
	k.wants(k.answer(protocol.Unknown))
	k.valid = false
	k.op(k.on(protocol.KeyTick), protocol.Claim, 7, 1000)
	k.wants(k.answer(protocol.Applied)) // ours, but D has come: not started
	if k.Phase != protocol.Idle {
		t.Fatalf("phase %v, want Idle", k.Phase)
	}
	k.wants(k.on(protocol.KeyTick))
	k.valid, k.clock = true, 1500
	k.op(k.on(protocol.KeyResume), protocol.Claim, 1000, 1500) // adopted: a new claim, a new token
	acts := k.answer(protocol.Applied)
	k.wants(acts, protocol.StartKey)
	if acts[0].Token != 1500 {
		t.Errorf("token %d", acts[0].Token)
	}
}

func TestKeyRepeatIsTheVerySameWrite(t *testing.T) {
	k := newKey(t)
	first := k.claim(7)
	k.answer(protocol.Unknown)
	k.clock = 9999
	again := k.on(protocol.KeyTick)
	k.wants(again, protocol.WriteKey)
	if again[0] != first[0] {
		t.Errorf("%+v repeated as %+v", first[0], again[0])
	}
}

func TestKeyRepeatsWaitForTheTick(t *testing.T) {
	k := runningKey(t)
	k.on(protocol.KeyReport)
	k.wants(k.answer(protocol.Unknown))
	for _, kind := range []protocol.KeyEventKind{protocol.KeyReport, protocol.KeyAdvance, protocol.KeyResume} {
		k.wants(k.on(kind))
	}
	k.op(k.on(protocol.KeyTick), protocol.Report, 1000, 1001)
	k.wants(k.answer(protocol.Refused), protocol.ReadKey)
	// A read that fails at once was repeated at once, for as long as the store was down.
	k.wants(k.do(protocol.KeyEvent{Kind: protocol.KeyRead}))
	k.wants(k.on(protocol.KeyTick), protocol.ReadKey)
}

func TestKeyClaimRefusedIsFree(t *testing.T) {
	k := newKey(t)
	k.claim(7)
	acts := k.answer(protocol.Refused)
	k.wants(acts, protocol.KeyOff)
	if !acts[0].Refused || k.Key != (protocol.Key{}) {
		t.Errorf("%+v, %+v", acts[0], k.Key)
	}
	k.wants(k.answer(protocol.Applied)) // a late answer wakes nothing
}

// A write that no store can take is given up, and not repeated.
func TestKeyUnwritable(t *testing.T) {
	claims := newKey(t)
	claims.wants(claims.claim(7), protocol.WriteKey)
	claims.wants(claims.answer(protocol.Unwritable), protocol.KeyOff)

	runs := runningKey(t)
	runs.wants(runs.on(protocol.KeyReport), protocol.WriteKey)
	runs.wants(runs.answer(protocol.Unwritable))
	runs.wants(runs.on(protocol.KeyTick))
	runs.wants(runs.on(protocol.KeyAdvance), protocol.WriteKey)
	advanced := runs.answer(protocol.Unwritable)
	runs.wants(advanced, protocol.Advanced)
	if runs.Phase != protocol.Running || runs.Token != 1000 || advanced[0].Token != 0 {
		t.Errorf("after an advance: %+v, %+v", runs.Key, advanced)
	}
	runs.wants(runs.on(protocol.KeyReturned), protocol.WriteKey)
	runs.wants(runs.answer(protocol.Unwritable), protocol.WriteKey)
	runs.wants(runs.answer(protocol.Applied), protocol.KeyOff)
}

func TestKeyReleaseOnlyAfterTheReturn(t *testing.T) {
	k := runningKey(t)
	k.wants(k.on(protocol.KeyGiveUp), protocol.StopKey)
	for range 3 {
		k.wants(k.on(protocol.KeyTick))
		k.wants(k.on(protocol.KeyGiveUp))
	}
	k.op(k.on(protocol.KeyReturned), protocol.Release, 1000, 1001)
	k.wants(k.answer(protocol.Unknown))
	k.op(k.on(protocol.KeyTick), protocol.Release, 1000, 1001)
	k.wants(k.answer(protocol.Applied), protocol.KeyOff)
}

func TestKeyReleaseWaitsForTheWriteUnderWay(t *testing.T) {
	k := runningKey(t)
	k.op(k.on(protocol.KeyAdvance), protocol.Advance, 1000, 1001)
	k.wants(k.on(protocol.KeyGiveUp), protocol.StopKey)
	k.wants(k.on(protocol.KeyReturned))
	k.wants(k.answer(protocol.Unknown))
	k.op(k.on(protocol.KeyTick), protocol.Advance, 1000, 1001)
	acts := k.answer(protocol.Applied)
	k.wants(acts, protocol.Advanced, protocol.WriteKey)
	k.op(acts[1:], protocol.Release, 1001, 1002)
}

func TestKeyGivenUpWhileClaimingNeverStarts(t *testing.T) {
	k := newKey(t)
	k.claim(7)
	k.wants(k.on(protocol.KeyGiveUp))
	k.op(k.answer(protocol.Applied), protocol.Release, 1000, 1001)
	k.wants(k.answer(protocol.Applied), protocol.KeyOff)
}

func TestKeyDeadlineStopsAndAdoptsLater(t *testing.T) {
	k := runningKey(t)
	k.valid = false
	k.wants(k.on(protocol.KeyDeadline), protocol.StopKey)
	k.wants(k.on(protocol.KeyDeadline))
	k.wants(k.on(protocol.KeyReturned)) // not released: the store cannot learn of it, and it may be ours again
	k.wants(k.on(protocol.KeyTick))
	k.valid = true
	k.op(k.on(protocol.KeyResume), protocol.Claim, 1000, 1001)
	k.wants(k.answer(protocol.Applied), protocol.StartKey)
}

func TestKeyStoppedByTheDeadlineIsNotStartedTwice(t *testing.T) {
	k := runningKey(t)
	k.valid = false
	k.on(protocol.KeyDeadline)
	k.valid = true
	k.wants(k.on(protocol.KeyResume)) // the old run has not returned
	k.wants(k.on(protocol.KeyTick))
	k.op(k.on(protocol.KeyReturned), protocol.Claim, 1000, 1001)
}

func TestKeyLostWritesNothingMore(t *testing.T) {
	k := runningKey(t)
	k.on(protocol.KeyAdvance)
	k.wants(k.on(protocol.KeyLose), protocol.KillKey)
	k.wants(k.on(protocol.KeyLose))
	k.wants(k.answer(protocol.Applied)) // of the advance: no token is believed any more
	for _, kind := range []protocol.KeyEventKind{
		protocol.KeyTick, protocol.KeyGiveUp, protocol.KeyReport, protocol.KeyAdvance, protocol.KeyResume,
	} {
		k.wants(k.on(kind))
	}
	k.wants(k.on(protocol.KeyReturned), protocol.KeyOff)
}

func TestKeyLostWithoutARunIsFreeAtOnce(t *testing.T) {
	claiming := newKey(t)
	claiming.claim(7)
	claiming.wants(claiming.on(protocol.KeyLose), protocol.KeyOff)

	releasing := runningKey(t)
	releasing.on(protocol.KeyReturned)
	releasing.wants(releasing.on(protocol.KeyLose), protocol.KeyOff)

	idle := newKey(t)
	idle.claim(7)
	idle.valid = false
	idle.answer(protocol.Applied)
	idle.wants(idle.on(protocol.KeyLose), protocol.KeyOff)
}

func TestKeyRefusalIsUnderstoodByARead(t *testing.T) {
	refused := func(t *testing.T, kind protocol.KeyEventKind) *aKey {
		t.Helper()
		k := runningKey(t)
		k.on(kind)
		k.wants(k.answer(protocol.Refused), protocol.ReadKey)
		return k
	}
	t.Run("an earlier copy had landed", func(t *testing.T) {
		k := refused(t, protocol.KeyAdvance)
		acts := k.found(1001, true)
		k.wants(acts, protocol.Advanced)
		if acts[0].Token != 1001 {
			t.Errorf("token %d", acts[0].Token)
		}
	})
	t.Run("written out of band, still mine: again on what is there", func(t *testing.T) {
		k := refused(t, protocol.KeyAdvance)
		k.op(k.found(1500, true), protocol.Advance, 1500, 1501)
	})
	t.Run("written out of band at the very revision the write would have had", func(t *testing.T) {
		k := refused(t, protocol.KeyAdvance)
		k.op(
			k.do(protocol.KeyEvent{Kind: protocol.KeyRead, OK: true, Rev: 1001, Mine: true}), protocol.Advance, 1001,
			1002,
		)
	})
	t.Run("another's: the run is killed", func(t *testing.T) {
		k := refused(t, protocol.KeyReport)
		k.wants(k.found(1500, false), protocol.KillKey)
	})
	t.Run("deleted: the run is killed", func(t *testing.T) {
		k := refused(t, protocol.KeyReport)
		k.wants(k.found(0, false), protocol.KillKey)
	})
	t.Run("a release that another overtook", func(t *testing.T) {
		k := runningKey(t)
		k.on(protocol.KeyReturned)
		k.wants(k.answer(protocol.Refused), protocol.ReadKey)
		k.wants(k.found(2000, false), protocol.KeyOff)
	})
	t.Run("a release over a lock written out of band", func(t *testing.T) {
		k := runningKey(t)
		k.on(protocol.KeyReturned)
		k.answer(protocol.Refused)
		k.op(k.found(2000, true), protocol.Release, 2000, 2001)
	})
	t.Run("an adoption that came too late", func(t *testing.T) {
		k := runningKey(t)
		k.on(protocol.KeyDeadline)
		k.on(protocol.KeyReturned)
		k.wants(k.answer(protocol.Refused), protocol.ReadKey)
		k.wants(k.found(2000, false), protocol.KeyOff)
	})
}

func TestKeyReportsAreJoinedAndGoBesideNothing(t *testing.T) {
	k := runningKey(t)
	k.op(k.on(protocol.KeyReport), protocol.Report, 1000, 1001)
	k.wants(k.on(protocol.KeyReport))
	k.wants(k.on(protocol.KeyReport))
	k.op(k.answer(protocol.Applied), protocol.Report, 1001, 1002)
	k.wants(k.answer(protocol.Applied))
	if k.Token != 1000 {
		t.Errorf("a report changed the token to %d", k.Token)
	}
}

func TestKeyReturnByItselfReleases(t *testing.T) {
	k := runningKey(t)
	k.op(k.on(protocol.KeyReturned), protocol.Release, 1000, 1001)
}

func TestKeyClaimOfAKeyNotFreeIsIgnored(t *testing.T) {
	k := runningKey(t)
	before := k.Key
	k.wants(k.claim(99))
	if k.Key != before {
		t.Errorf("%+v became %+v", before, k.Key)
	}
}

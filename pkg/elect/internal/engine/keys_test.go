package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// keysWorld is one process's table, and the time.
type keysWorld struct {
	*Keys
	t   *testing.T
	now time.Duration
}

func newKeysWorld(t *testing.T) *keysWorld {
	t.Helper()
	w := &keysWorld{Keys: newKeys(&Effects{}, testParams(t)), t: t}
	w.begin(holder{IDs: &record.WriterIDs{Session: "me"}, Instance: "a"})
	return w
}

func (w *keysWorld) moment() protocol.Moment { return testMoment(w.now) }

// send prepares what is queued.
func (w *keysWorld) send() []driver.Change {
	var keys []record.Key
	for _, write := range of[keyWrite](takeFrom(w.out)) {
		keys = append(keys, write.Key)
	}
	return w.prepare(keys, w.moment())
}

// answer says that these changes ended so.
func (w *keysWorld) answer(changes []driver.Change, status protocol.Status) taken {
	for _, c := range changes {
		w.answered(record.Key(c.Doc.ID), c.Doc.WriterID, status, nil, w.moment())
	}
	return takeFrom(w.out)
}

// run claims g/k and has it run.
func (w *keysWorld) run() {
	w.t.Helper()
	const key = "g/k"
	if v := w.claim(Claim{Lock: record.Lock{Key: key, Rev: 5}, Adopt: true}, w.moment()); v != ClaimBegun {
		w.t.Fatalf("claim: %v", v)
	}
	if r := w.answer(w.send(), protocol.Applied); len(of[Start](r)) != 1 || of[Start](r)[0].Key != key {
		w.t.Fatalf("starts %+v", of[Start](r))
	}
}

func (w *keysWorld) held() cluster.Held {
	for k, h := range w.Held.All() {
		if k == "g/k" {
			return h
		}
	}
	return cluster.Held{}
}

func lockOf(t *testing.T, c driver.Change) record.Lock {
	t.Helper()
	lock, err := record.LockFrom(c.Doc)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestWhoMayClaim(t *testing.T) {
	fresh := int64(1_000_000)
	for name, c := range map[string]struct {
		claim Claim
		want  ClaimVerdict
	}{
		"unowned":          {Claim{Lock: record.Lock{Rev: 5}}, ClaimBegun},
		"a live session's": {Claim{Lock: record.Lock{Rev: 5, Session: "b"}}, ClaimTaken},
		"a dead session's": {
			Claim{Lock: record.Lock{Rev: 5, Session: "b"}, Freed: true}, ClaimBegun,
		},
		"reserved for another": {Claim{
			Lock: record.Lock{Rev: 5, Next: "b", Since: fresh},
		}, ClaimTaken},
		"reserved for a dead one": {Claim{
			Lock: record.Lock{Rev: 5, Next: "b", Since: fresh}, NextDead: true,
		}, ClaimBegun},
		"reserved for another long ago": {Claim{
			Lock: record.Lock{Rev: 5, Next: "b", Since: fresh - 1000},
		}, ClaimBegun},
		"reserved for me": {Claim{
			Lock: record.Lock{Rev: 5, Next: "me", Since: fresh},
		}, ClaimBegun},
		"mine, by my own write": {
			Claim{Lock: record.Lock{Rev: 5, Session: "me", WriterID: driver.WriterID{Session: "me"}}},
			ClaimBegun,
		},
		"mine, by another's write": {
			Claim{Lock: record.Lock{Rev: 5, Session: "me", WriterID: driver.WriterID{Session: "b"}}},
			ClaimEdited,
		},
	} {
		w := newKeysWorld(t)
		c.claim.Lock.Key = "g/k"
		if got := w.claim(c.claim, w.moment()); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The store's clock may stand still, where it was set back below the revisions given. The local one ends the
// hold-off all the same.
func TestAHoldOffEndsByTheLocalClockToo(t *testing.T) {
	w := newKeysWorld(t)
	still := w.moment().Clock
	c := Claim{Lock: record.Lock{Key: "g/k", Rev: 5, Next: "b", Since: still}}
	for _, step := range []struct {
		after time.Duration
		want  ClaimVerdict
	}{{0, ClaimTaken}, {protocol.HoldOff - 1, ClaimTaken}, {protocol.HoldOff, ClaimBegun}} {
		w.now = step.after
		m := w.moment()
		m.Clock = still
		if got := w.claim(c, m); got != step.want {
			t.Errorf("after %v: %v, want %v", step.after, got, step.want)
		}
	}
}

func TestALockThatNamesMeByAnothersWriteIsLeftAloneForT(t *testing.T) {
	w := newKeysWorld(t)
	c := Claim{Lock: record.Lock{Key: "g/k", Rev: 5, Session: "me", WriterID: driver.WriterID{Session: "b"}}}
	if got := w.claim(c, w.moment()); got != ClaimEdited {
		t.Errorf("at first: %v", got)
	}
	w.now = testLease - 1
	if got := w.claim(c, w.moment()); got != ClaimTaken {
		t.Errorf("before T: %v", got)
	}
	w.now = testLease
	if got := w.claim(c, w.moment()); got != ClaimBegun {
		t.Errorf("after T: %v", got)
	}
}

// A cap counts claims that are not answered, runs, runs that stop, and releases that are not answered.
func TestCapCountsAKeyUntilItsReleaseIsAcknowledged(t *testing.T) {
	w := newKeysWorld(t)
	w.setLimits(Limits{Caps: map[string]int{"g": 1}})
	full := func(when string, want ClaimVerdict) {
		t.Helper()
		if got := w.claim(Claim{Lock: record.Lock{Key: "g/other", Rev: 5}}, w.moment()); got != want {
			t.Errorf("%s: verdict %v, want %v", when, got, want)
		}
	}
	w.claim(Claim{Lock: record.Lock{Key: "g/k", Rev: 5}}, w.moment())
	claim := w.send()
	full("the claim is sent", ClaimFull)
	w.answer(claim, protocol.Applied)
	full("it runs", ClaimFull)
	w.Release(cluster.HandOver{Key: "g/k"}, w.moment())
	full("it stops", ClaimFull)
	w.Returned("g/k", record.TaskStatus{}, false, w.moment())
	release := w.send()
	full("the release is sent", ClaimFull)
	w.answer(release, protocol.Applied)
	full("it is released", ClaimBegun)
}

func TestLimitsCountClaimsUnderWay(t *testing.T) {
	w := newKeysWorld(t)
	w.setLimits(Limits{Caps: map[string]int{"g": 1}, MaxTasks: 2})
	claim := func(key record.Key, anyCap bool) ClaimVerdict {
		return w.claim(Claim{Lock: record.Lock{Key: key, Rev: 5}, AnyCap: anyCap}, w.moment())
	}
	for _, step := range []struct {
		key    record.Key
		anyCap bool
		want   ClaimVerdict
	}{
		{"g/1", false, ClaimBegun},
		{"g/2", false, ClaimFull},
		{"~discovery/g", true, ClaimBegun}, // no task
		{"h/1", false, ClaimBegun},
		{"i/1", false, ClaimFull},
		{"g/3", true, ClaimBegun},
	} {
		if got := claim(step.key, step.anyCap); got != step.want {
			t.Errorf("%s: %v, want %v", step.key, got, step.want)
		}
	}
}

func TestARepeatIsTheVerySameWrite(t *testing.T) {
	w := newKeysWorld(t)
	w.claim(Claim{Lock: record.Lock{Key: "g/k", Rev: 5}}, w.moment())
	first := w.send()
	w.answer(first, protocol.Unknown)
	w.now += time.Second
	w.tick(w.moment())
	again := w.send()
	if len(again) != 1 || again[0].Doc.WriterID != first[0].Doc.WriterID || again[0].Doc.Rev != first[0].Doc.Rev {
		t.Errorf("repeated as %+v, was %+v", again, first)
	}
}

// A status that is reported while an advance is under way is newer than the advance's own.
func TestAStatusReportedDuringAnAdvanceIsKept(t *testing.T) {
	w := newKeysWorld(t)
	w.run()
	if !w.Advance("g/k", record.TaskStatus{State: "starting"}, w.moment()) {
		t.Fatal("cannot be advanced")
	}
	sent := w.send()
	w.Report("g/k", record.TaskStatus{State: "running"}, w.moment().Now)
	if r := w.answer(sent, protocol.Applied); len(of[Advanced](r)) != 1 || of[Advanced](r)[0].Token == 0 {
		t.Fatalf("%+v", of[Advanced](r))
	}
	if got := w.Held.Status("g/k").State; got != "running" {
		t.Errorf("status %q after the advance, want the newer one", got)
	}
	w.now += time.Second
	w.tick(w.moment())
	if noted := w.send(); len(noted) != 1 || lockOf(t, noted[0]).Status.State != "running" {
		t.Errorf("noted: %+v", noted)
	}
}

func TestAReleaseCarriesTheLastStatusAndItsReservation(t *testing.T) {
	w := newKeysWorld(t)
	w.run()
	w.Release(cluster.HandOver{Key: "g/k", Next: "b", Reason: record.ReasonDrain}, w.moment())
	w.Release(cluster.HandOver{Key: "g/k", Next: "c"}, w.moment())
	r := takeFrom(w.out)
	if len(of[Stop](r)) != 1 || of[Stop](r)[0].Cause != CauseReleased || len(of[keyWrite](r)) > 0 {
		t.Fatalf("%+v: want a stop, and nothing written while it runs", r)
	}
	w.Returned("g/k", record.TaskStatus{State: "done"}, true, w.moment())
	sent := w.send()
	lock := lockOf(t, sent[0])
	if lock.Session != "" || lock.Next != "b" || !lock.Suspended || lock.Status.State != "done" ||
		lock.Reason != record.ReasonDrain {
		t.Errorf("released as %+v", lock)
	}
	if r := w.answer(sent, protocol.Applied); len(of[Freed](r)) != 1 || of[Freed](r)[0].ReleaseUnconfirmed {
		t.Errorf("%+v", of[Freed](r))
	}
}

func TestAKeyLostBeforeItsReleaseIsAcknowledgedSaysSo(t *testing.T) {
	w := newKeysWorld(t)
	w.run()
	w.Release(cluster.HandOver{Key: "g/k"}, w.moment())
	w.Returned("g/k", record.TaskStatus{}, false, w.moment())
	w.send()
	w.All(protocol.KeyLose, w.moment())
	if r := takeFrom(w.out); len(of[Freed](r)) != 1 || !of[Freed](r)[0].ReleaseUnconfirmed {
		t.Errorf("%+v, want one whose release was not acknowledged", of[Freed](r))
	}
}

func TestARunThatGoesOnUnderAnothersLockIsStuck(t *testing.T) {
	w := newKeysWorld(t)
	w.run()
	w.lose("g/k", false, w.moment())
	if r := takeFrom(w.out); len(of[Stop](r)) != 1 || of[Stop](r)[0].Cause != CauseLost {
		t.Fatalf("%+v", of[Stop](r))
	}
	w.now += testLease/4 - 1
	w.tick(w.moment())
	if r := takeFrom(w.out); len(of[stuckRuns](r)) > 0 {
		t.Error("too soon")
	}
	w.now++
	w.tick(w.moment())
	w.tick(w.moment())
	if stuck := of[stuckRuns](takeFrom(w.out)); len(stuck) != 1 || !slices.Equal(stuck[0].keys, []record.Key{"g/k"}) {
		t.Errorf("stuck: %v, want it once", stuck)
	}
}

func TestAnExpiredKeyIsAdoptedUnderANewToken(t *testing.T) {
	w := newKeysWorld(t)
	w.run()
	before := w.Held["g/k"].m.Token
	w.All(protocol.KeyDeadline, w.moment())
	if r := takeFrom(w.out); len(of[Stop](r)) != 1 || of[Stop](r)[0].Cause != CauseExpired {
		t.Fatalf("%+v", of[Stop](r))
	}
	m := w.moment()
	m.Valid = false
	w.Returned("g/k", record.TaskStatus{}, false, m)
	if r := takeFrom(w.out); len(of[keyWrite](r)) > 0 || !w.Held.Holds("g/k") {
		t.Fatalf("%+v without a lease", of[keyWrite](r))
	}
	w.now += time.Second
	w.All(protocol.KeyResume, w.moment())
	r := w.answer(w.send(), protocol.Applied)
	if len(of[Start](r)) != 1 || of[Start](r)[0].Token <= before {
		t.Errorf("%+v, want a start above token %d", of[Start](r), before)
	}
}

// How long a hand-over took is measured at the first start only: a later one has another cause.
func TestAnAdoptionIsNoHandOver(t *testing.T) {
	w := newKeysWorld(t)
	since := w.moment().Clock
	w.claim(Claim{Lock: record.Lock{Key: "g/k", Rev: 5, Next: "me", Since: since}, Adopt: true}, w.moment())
	if r := w.answer(w.send(), protocol.Applied); len(of[Start](r)) != 1 || of[Start](r)[0].HandedOver != since {
		t.Fatalf("%+v, want a start that was handed over", of[Start](r))
	}
	w.All(protocol.KeyDeadline, w.moment())
	w.Returned("g/k", record.TaskStatus{}, false, w.moment())
	if r := w.answer(w.send(), protocol.Applied); len(of[Start](r)) != 1 || of[Start](r)[0].HandedOver != 0 {
		t.Errorf("%+v, want a start that was not", of[Start](r))
	}
}

func TestADeletedLockIsReadWithItsMarkAndCreatedAboveIt(t *testing.T) {
	w := newKeysWorld(t)
	w.claim(Claim{Lock: record.Lock{Key: "g/k"}}, w.moment())
	r := takeFrom(w.out)
	if len(of[keyRead](r)) != 1 || !of[keyRead](r)[0].Create || len(of[keyWrite](r)) > 0 {
		t.Fatalf("%+v: a creation reads first", r)
	}
	w.found(keyFound{Key: "g/k", Mark: 9_000_000}, w.moment())
	sent := w.send()
	if len(sent) != 1 || sent[0].IfRev != 0 || sent[0].Doc.Rev != 9_000_001 {
		t.Errorf("%+v", sent)
	}
}

func TestRepairsTouchNothingThatIsHeld(t *testing.T) {
	w := newKeysWorld(t)
	w.run()
	mine := record.Lock{Key: "g/k", Rev: 7, Session: "me", WriterID: driver.WriterID{Session: "me"}}
	if _, ok := w.claims.free(mine, w.moment()); ok {
		t.Error("frees a key that is held")
	}
	if _, ok := w.claims.restore(mine, 0, w.moment()); ok {
		t.Error("restores a key that is held")
	}
	mine.Key = "g/other"
	change, ok := w.claims.free(mine, w.moment())
	if lock := lockOf(t, change); !ok || change.IfRev != 7 || lock.Session != "" {
		t.Errorf("%+v, %v", change, ok)
	}
	change, ok = w.claims.restore(record.Lock{Key: "g/gone", Rev: 2_000_000}, 3_000_000, w.moment())
	if !ok || change.IfRev != 0 || change.Doc.Rev != 3_000_001 {
		t.Errorf("%+v, %v", change, ok)
	}
}

// What a run says of itself is known here at once, whatever the store takes of it. What was said before it began is not
// taken for its word: a claim says that it starts.
func TestWhatARunSaidIsKnownBeforeItIsWritten(t *testing.T) {
	w := newKeysWorld(t)
	const key = "g/k"
	before := record.TaskStatus{State: "running", Restarts: 3}
	w.claim(Claim{Lock: record.Lock{Key: key, Rev: 5, Status: before}, Adopt: true}, w.moment())
	w.answer(w.send(), protocol.Applied)
	if got := w.held().Status; got != nil {
		t.Errorf("claimed, and nothing was said: %+v", got)
	}
	w.Report(key, record.TaskStatus{State: "backoff", Restarts: 4}, w.moment().Now)
	w.now += time.Second
	w.tick(w.moment())
	r := takeFrom(w.out)
	got := w.held().Status
	if !r.changes.Held || len(of[keyWrite](r)) != 1 || got.State != "backoff" || got.Restarts != 4 {
		t.Errorf("said, and not written: changed %v, %d writes, %+v", r.changes.Held, len(of[keyWrite](r)), got)
	}
	if w.held().Status != got {
		t.Error("views do not share what was said")
	}
}

package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/record"
)

func dueRound() auditRound {
	return auditRound{Open: true, Valid: true, Alive: func() []string { return []string{"b", "me"} }}
}

func TestACountThatDiffersTwiceIsLookedInto(t *testing.T) {
	a := newAudit(&Effects{}, testParams(t), testAt(0))
	for round := 1; round <= 2; round++ {
		a.tick(dueRound(), testAt(time.Duration(round)*5*time.Second))
		if len(of[countLocks](takeFrom(a.out))) == 0 {
			t.Fatalf("round %d: no count after T/4", round)
		}
		a.counted(2, true, ownedBounds{Least: 1, Most: 1})
		if got := len(of[listLocks](takeFrom(a.out))) > 0; got != (round == 2) {
			t.Errorf("round %d: list = %v", round, got)
		}
	}
	a.listed(
		[]*record.Lock{{Key: "g/1"}, {Key: "g/2"}}, func(key record.Key) bool { return key == "g/1" },
		[]record.Key{"g/1"},
	)
	if got := suspects(a); !slices.Equal(got, []record.Key{"g/2"}) {
		t.Errorf("suspects %v, want the lock that is not held", got)
	}
}

// Where keys are in motion a count proves nothing. Two such in a row are decided by a list.
func TestACountThatKeysInMotionExplainProvesNothing(t *testing.T) {
	a := newAudit(&Effects{}, testParams(t), testAt(0))
	for round := 1; round <= 6; round++ {
		a.tick(dueRound(), testAt(time.Duration(round)*5*time.Second))
		bounds := ownedBounds{Least: 1, Most: 2}
		if round == 4 {
			bounds.Most = 1 // at rest, and as it should be: the count begins again
		}
		a.counted(1, true, bounds)
		lists := of[listLocks](takeFrom(a.out))
		if want := round == 2 || round == 6; len(lists) > 0 != want || want && lists[0].differs {
			t.Errorf("round %d: list %v, which says that the numbers differ: %v", round, len(lists) > 0, lists)
		}
	}
}

type knownLocks map[record.Key]*record.Lock

func (k knownLocks) Lock(key record.Key) *record.Lock { return k[key] }
func (k knownLocks) Each(do func(*record.Lock)) {
	for _, l := range k {
		do(l)
	}
}

func TestASweepFindsWhatIsLowerOrGone(t *testing.T) {
	a := newAudit(&Effects{}, testParams(t), testAt(0))
	if !a.tick(dueRound(), testAt(0)) {
		t.Fatal("no sweep at the start")
	}
	if got := of[sweepLocks](takeFrom(a.out)); len(got) != 1 || !slices.Equal(got[0].alive, []string{"b", "me"}) {
		t.Fatalf("sweeps all but those of %v", got)
	}
	cached := knownLocks{
		"g/lower":     {Key: "g/lower", Rev: 9},
		"g/gone":      {Key: "g/gone", Rev: 5},
		"g/held":      {Key: "g/held", Rev: 5},
		"g/suspended": {Key: "g/suspended", Rev: 5, Suspended: true},
		"g/alive":     {Key: "g/alive", Rev: 5, Session: "b"},
	}
	held := func(key record.Key) bool { return key == "g/held" }
	fresh := a.swept([]*record.Lock{{Key: "g/lower", Rev: 3}, {Key: "g/new", Rev: 4}}, true, cached, held)
	if len(fresh) != 1 || fresh[0].Key != "g/new" {
		t.Errorf("fresh: %v", fresh)
	}
	if got := suspects(a); !slices.Equal(got, []record.Key{"g/gone", "g/lower"}) {
		t.Errorf("suspects %v", got)
	}
	a.swept(nil, true, cached, held)
	if got := suspects(a); slices.Contains(got, "g/gone") {
		t.Error("a suspect that is being read is asked for again")
	}
}

// A sweep that failed is not put off for a whole T.
func TestAFailedSweepIsRepeatedSoon(t *testing.T) {
	p := testParams(t)
	a := newAudit(&Effects{}, p, testAt(0))
	a.tick(dueRound(), testAt(0))
	a.swept(nil, false, knownLocks{}, nil)
	takeFrom(a.out)
	if a.tick(dueRound(), testAt(p.Retry/2)) {
		t.Error("at once, while the store fails")
	}
	if !a.tick(dueRound(), testAt(p.Retry)) {
		t.Error("not after the pause of a failure")
	}
}

func TestADeletedLockIsLookedAtOnceTheLeaseIsValid(t *testing.T) {
	a := newAudit(&Effects{}, testParams(t), testAt(0))
	a.noteDeleted(&record.Lock{Key: "g/1", Rev: 7})
	cut := dueRound()
	cut.Valid = false
	a.tick(cut, testAt(0))
	if got := suspects(a); len(got) > 0 {
		t.Errorf("suspects %v without a lease", got)
	}
	a.tick(dueRound(), testAt(1))
	if got := suspects(a); !slices.Equal(got, []record.Key{"g/1"}) {
		t.Errorf("suspects %v", got)
	}
	// It may not be possible to create it yet. Reading it over and over would take all of the loop's time.
	a.done("g/1")
	a.tick(dueRound(), testAt(2))
	if got := suspects(a); len(got) > 0 {
		t.Errorf("suspects %v again at once", got)
	}
	if lock := a.lost("g/1"); lock == nil || lock.Rev != 7 {
		t.Errorf("lost: %+v", lock)
	}
}

func TestJudge(t *testing.T) {
	mine, others := &record.Lock{Session: "me"}, &record.Lock{Session: "b"}
	for name, c := range map[string]struct {
		found         *record.Lock
		held, settled bool
		want          lockVerdict
	}{
		"runs and is mine":             {mine, true, true, lockFine},
		"runs and is another's":        {others, true, true, lockLost},
		"runs and was deleted":         {nil, true, true, lockLost},
		"a write of it is under way":   {others, true, false, lockFine},
		"mine and not held":            {mine, false, false, lockNotHeld},
		"another's and not held":       {others, false, false, lockWrong},
		"deleted and not held":         {nil, false, false, lockDeleted},
		"unowned, at a lower revision": {&record.Lock{}, false, false, lockWrong},
	} {
		if got := judgeLock(c.found, "me", c.held, c.settled); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// suspects are the locks to be read.
func suspects(a *audit) []record.Key {
	return keys(takeFrom(a.out), func(x lockSuspected) record.Key { return x.key })
}

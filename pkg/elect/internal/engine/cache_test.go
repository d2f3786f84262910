package engine

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

func testCache(t *testing.T, groups ...string) *Cache {
	t.Helper()
	c := NewCache(testParams(t), testAt(0))
	c.Begin("me")
	c.Track(groups...)
	return c
}

// counterReading is what the store said with a counter of the group g, if its floor is its clock.
func counterReading(n int64) Reading {
	return Reading{Counts: map[string]int64{"g": n}, Clock: 100_000, Floor: 100_000}
}

func noneHeld(record.Key) bool { return false }

// refreshCache reads what the cache wants, as if the store held these counters and locks.
func refreshCache(t *testing.T, c *Cache, now time.Duration, counts map[string]int64, locks ...record.Lock) {
	t.Helper()
	p, ok := c.Plan(testAt(now))
	if !ok {
		t.Fatalf("nothing to read after %v", now)
	}
	r := Reading{
		Counts: counts, Locks: map[string][]*record.Lock{}, Clock: 100_000, Floor: 100_000,
		Members:  map[string]record.Member{},
		Overrode: true,
	}
	for _, name := range p.Groups() {
		if from, ok := p.From(name, r); ok {
			r.Locks[name] = []*record.Lock{}
			for _, l := range locks {
				if l.Key.Group() == name && l.Rev >= from {
					r.Locks[name] = append(r.Locks[name], &l)
				}
			}
		}
	}
	c.Refreshed(p, r, noneHeld, testAt(now+time.Millisecond))
}

func TestLoadedOnceAllGroupsAreRead(t *testing.T) {
	c := testCache(t, "g")
	if c.Loaded() || c.LongestLease() != math.MaxInt64 {
		t.Error("something is known before the first reading")
	}
	refreshCache(t, c, 0, map[string]int64{"g": 1}, record.Lock{Key: "g/1", Rev: 5, Session: "b"})
	if !c.Loaded() {
		t.Error("not loaded")
	}
	got := takeFrom(c.out)
	named := of[*ownersNamed](got)
	if len(named) != 1 || !slices.Equal(named[0].sessions, []string{"b"}) || !slices.Contains(moved(got), "g") {
		t.Errorf("ready: %+v", got)
	}
	if lock := c.Lock("g/1"); lock == nil || lock.Rev != 5 {
		t.Errorf("lock: %+v", lock)
	}
}

// A group that is untracked and tracked again while a refresh is under way begins empty. What is read for the one
// before is not taken for all of its locks.
func TestAGroupTrackedAgainDuringARefreshIsNotLoaded(t *testing.T) {
	c := testCache(t, "g")
	refreshCache(t, c, 0, map[string]int64{"g": 1}, record.Lock{Key: "g/1", Rev: 5})
	c.Touch("g")
	p, ok := c.Plan(testAt(time.Second))
	if !ok {
		t.Fatal("nothing to read")
	}
	c.Track()
	c.Track("g")
	c.Refreshed(
		p, Reading{
			Counts: map[string]int64{"g": 1}, Locks: map[string][]*record.Lock{"g": {}}, Clock: 100_001,
			Floor: 100_001,
		},
		noneHeld, testAt(time.Second),
	)
	if c.Loaded() {
		t.Error("loaded while empty")
	}
	refreshCache(t, c, 10*time.Second, map[string]int64{"g": 1}, record.Lock{Key: "g/1", Rev: 5})
	if c.Lock("g/1") == nil || !c.Loaded() {
		t.Error("not loaded by the next refresh")
	}
}

func TestAFailedRefreshIsWantedAgainWhole(t *testing.T) {
	c := testCache(t, "g")
	p, _ := c.Plan(testAt(0))
	c.Failed(p, time.Second, testAt(0))
	if p, ok := c.Plan(testAt(30 * time.Second)); !ok || !p.wanted.members || !p.wanted.overrides {
		t.Errorf("plan %+v, %v", p, ok)
	}
}

func TestAnOlderLockDoesNotReplaceANewerOne(t *testing.T) {
	c := testCache(t, "g")
	c.Put(&record.Lock{Key: "g/1", Rev: 9})
	c.Put(&record.Lock{Key: "g/1", Rev: 4, Session: "b"})
	if lock := c.Lock("g/1"); lock.Rev != 9 {
		t.Errorf("revision %d", lock.Rev)
	}
	c.Correct("g/1", &record.Lock{Key: "g/1", Rev: 4})
	if lock := c.Lock("g/1"); lock.Rev != 4 {
		t.Errorf("revision %d after a correction", lock.Rev)
	}
	c.Correct("g/1", nil)
	if c.Lock("g/1") != nil {
		t.Error("still there")
	}
	if c.MaxRev("g") != 9 {
		t.Errorf("largest revision %d: it never falls", c.MaxRev("g"))
	}
}

// A single read may be answered after a list that was read later.
// A lock that was edited under its owner, at the same revision, goes on saying what its owner wrote. One that names
// another is another's.
func TestAnEditedLockOfTheSameOwnerIsNotBelieved(t *testing.T) {
	c := testCache(t, "g")
	runs := record.Lock{Key: "g/k", Rev: 5, Session: "a", Status: record.TaskStatus{State: "running"}}
	c.Put(&runs)
	c.Put(&record.Lock{Key: "g/k", Rev: 5, Session: "a"})
	if got := c.Lock("g/k"); got.Status.State != "running" {
		t.Errorf("edited: %+v", got)
	}
	for _, lock := range []record.Lock{{Key: "g/k", Rev: 5, Session: "b"}, {Key: "g/k", Rev: 6, Session: "b"}} {
		c.Put(&lock)
		if got := c.Lock("g/k"); *got != lock {
			t.Errorf("%+v, want %+v", got, lock)
		}
	}
}

// A lock of this session that others have written is to be written again. Its own writes are not that.
func TestAnEditedLockOfOnesOwnIsWrittenAgain(t *testing.T) {
	c := testCache(t, "g")
	mine := func(rev, seq int64, state string) *record.Lock {
		return &record.Lock{
			Key: "g/k", Rev: rev, WriterID: driver.WriterID{Session: "me", Seq: seq}, Session: "me",
			Status: record.TaskStatus{State: state},
		}
	}
	c.Put(mine(5, 1, "running"))
	c.Put(mine(6, 2, "stopping"))
	if got := keys(takeFrom(c.out), func(x lockEdited) record.Key { return x.key }); got != nil {
		t.Errorf("own writes: %v", got)
	}
	hand := mine(9, 0, "")
	hand.WriterID.Session = "hand"
	for name, lock := range map[string]*record.Lock{
		"raised": mine(1006, 2, ""), "other": mine(6, 2, ""), "written": hand,
	} {
		c.Put(lock)
		got := keys(takeFrom(c.out), func(x lockEdited) record.Key { return x.key })
		if !slices.Equal(got, []record.Key{"g/k"}) ||
			c.Lock("g/k").Status.State != "stopping" {
			t.Errorf("%s: edited %v, known %+v", name, got, c.Lock("g/k"))
		}
	}
}

func TestACorrectionThatIsOutOfDateIsReadAgain(t *testing.T) {
	for name, stale := range map[string]*record.Lock{"older": {Key: "g/1", Rev: 40_000, Session: "a"}, "absent": nil} {
		t.Run(name, func(t *testing.T) {
			c := testCache(t, "g")
			newest := record.Lock{Key: "g/1", Rev: 50_000, Session: "b"}
			refreshCache(t, c, 0, map[string]int64{"g": 3}, newest)
			c.Correct("g/1", stale)
			refreshCache(t, c, 10*time.Second, map[string]int64{"g": 3}, newest)
			if lock := c.Lock("g/1"); lock == nil || lock.Rev != newest.Rev {
				t.Errorf("lock: %+v", lock)
			}
		})
	}
}

// A refresh that was under way has read newer locks only.
func TestACorrectionOutlivesARefreshUnderWay(t *testing.T) {
	c := testCache(t, "g")
	hidden := record.Lock{Key: "g/1", Rev: 50_000, Session: "b"}
	refreshCache(t, c, 0, map[string]int64{"g": 3}, hidden, record.Lock{Key: "g/2", Rev: 90_000})
	c.Touch("g")
	p, ok := c.Plan(testAt(time.Second))
	if !ok {
		t.Fatal("nothing to read")
	}
	c.Correct("g/1", nil)
	c.Refreshed(
		p, Reading{
			Counts: map[string]int64{"g": 3}, Locks: map[string][]*record.Lock{"g": {}}, Clock: 100_000,
			Floor: 100_000,
		},
		noneHeld, testAt(time.Second),
	)
	p, ok = c.Plan(testAt(10 * time.Second))
	if !ok {
		t.Fatal("nothing is read")
	}
	if from, ok := p.From("g", counterReading(3)); !ok || from > hidden.Rev {
		t.Errorf("read from %d (%v), want %d or below", from, ok, hidden.Rev)
	}
}

func TestAReservationIsAnnounced(t *testing.T) {
	c := testCache(t, "g")
	c.Put(&record.Lock{Key: "g/1", Rev: 1, Next: "me"})
	c.Put(&record.Lock{Key: "g/2", Rev: 1, Next: "b"})
	got := keys(takeFrom(c.out), func(x keyReserved) record.Key { return x.key })
	if !slices.Equal(got, []record.Key{"g/1"}) {
		t.Errorf("reserved: %v", got)
	}
}

func TestAnUnmovedCounterCostsNoReading(t *testing.T) {
	c := testCache(t, "g")
	refreshCache(t, c, 0, map[string]int64{"g": 3}, record.Lock{Key: "g/1", Rev: 50_000})
	c.Look()
	p, ok := c.Plan(testAt(time.Second))
	if !ok {
		t.Fatal("no plan")
	}
	if _, ok := p.From("g", counterReading(3)); ok {
		t.Error("reads a group whose counter has not moved")
	}
	if from, ok := p.From("g", counterReading(4)); !ok || from >= 50_000 || from < 40_000 {
		t.Errorf("reads from %d, %v", from, ok)
	}
}

// A writer whose clock is behind gives lower revisions: what it wrote is looked for further down.
func TestASkewedClockWidensWhatIsReadAgain(t *testing.T) {
	c := testCache(t, "g")
	refreshCache(t, c, 0, map[string]int64{"g": 3}, record.Lock{Key: "g/1", Rev: 50_000})
	c.Skewed(30_000)
	p, ok := c.Plan(testAt(time.Second))
	if !ok || !p.wanted.full {
		t.Fatalf("plan %+v, %v: what was read so far may have missed changes", p, ok)
	}
	c.Failed(p, time.Millisecond, testAt(time.Second))
	refreshCache(t, c, 10*time.Second, map[string]int64{"g": 3}, record.Lock{Key: "g/1", Rev: 50_000})
	c.Look()
	p, _ = c.Plan(testAt(20 * time.Second))
	if from, _ := p.From("g", counterReading(4)); from > 20_000 {
		t.Errorf("reads from %d", from)
	}
}

func TestLocksThatWereShownStayAsTheyAre(t *testing.T) {
	c := testCache(t, "g", "h")
	c.Put(&record.Lock{Key: "g/1", Rev: 1})
	c.Put(&record.Lock{Key: "h/1", Rev: 1})
	before := c.Locks()
	c.Put(&record.Lock{Key: "g/1", Rev: 2})
	c.Put(&record.Lock{Key: "g/2", Rev: 2})
	c.Correct("h/1", nil)
	if len(before) != 2 || before["g/1"].Rev != 1 || before["h/1"] == nil {
		t.Errorf("shown before, and changed: %v", before)
	}
	after := c.Locks()
	if len(after) != 2 || after["g/1"].Rev != 2 || after["g/2"] == nil {
		t.Errorf("shown after: %v", after)
	}
	c.Track("h")
	if c.Lock("g/1") != nil || c.Size() != 0 || len(after) != 2 {
		t.Errorf("a group that is not tracked is kept: %d locks", c.Size())
	}
}

func TestWhatIsReadAgainIsNoNews(t *testing.T) {
	c := testCache(t, "g")
	ended := record.Lock{Key: "g/1", Rev: 2, Status: record.TaskStatus{Outcome: &record.RunOutcome{ExitCode: 3}}}
	c.Put(&ended)
	takeFrom(c.out)
	again, edited := ended, ended
	again.Status.Outcome = &record.RunOutcome{ExitCode: 3}
	if c.Put(&again); takeFrom(c.out).changes.Locks || c.Locks()["g/1"] != &ended {
		t.Error("what holds the same took the place of what was known")
	}
	edited.Status.Outcome = &record.RunOutcome{ExitCode: 4}
	if c.Put(&edited); !takeFrom(c.out).changes.Locks || c.Locks()["g/1"] != &edited {
		t.Error("a lock that was edited manually, at the same revision, was not taken")
	}
}

// A notification of new events is passed on once, and nothing is read for it.
func TestEventsAreNewsWithoutAReading(t *testing.T) {
	c := testCache(t, "g")
	c.Watching(true)
	refreshCache(t, c, time.Second, map[string]int64{"g": 1, counterEvents: 1})
	if got := moved(takeFrom(c.out)); !slices.Contains(got, counterEvents) {
		t.Errorf("moved %q in the first reading", got)
	}
	c.EventsCounted(1)
	if r := takeFrom(c.out); len(r.effects) > 0 || r.changes != (Changes{}) {
		t.Errorf("%+v of what was read before", r)
	}
	c.EventsCounted(2)
	c.EventsCounted(2)
	if r := takeFrom(c.out); !slices.Equal(moved(r), []string{counterEvents}) || r.changes.View {
		t.Errorf("%+v, want the counter once, and no new view", r)
	}
	if _, ok := c.Plan(testAt(2 * time.Second)); ok {
		t.Error("something is to be read")
	}
}

func TestMembersStayWhereTheirDocumentIsMalformed(t *testing.T) {
	var m memberTable
	if m.LongestLease() != math.MaxInt64 {
		t.Error("a lease is known before the members were read")
	}
	m.replaceMembers(map[string]record.Member{"A": {LeaseMS: 2000}, "B": {LeaseMS: 9000}}, nil)
	m.replaceMembers(nil, []string{"A"}) // not read
	m.replaceMembers(map[string]record.Member{"C": {LeaseMS: 1000}}, []string{"B", "unknown"})
	if got := slices.Sorted(m.Members()); !slices.Equal(got, []string{"B", "C"}) {
		t.Errorf("members %q", got)
	}
	if b, ok := m.Member("B"); !ok || b.LeaseMS != 9000 || m.LongestLease() != 9*time.Second {
		t.Errorf("B: %+v, the longest lease %v", b, m.LongestLease())
	}
	m.ForgetMembers("B", "unknown")
	if _, ok := m.Member("B"); ok || m.LongestLease() != time.Second {
		t.Errorf("B is there, or the longest lease is %v", m.LongestLease())
	}
	m.ForgetMembers("C")
	if m.LongestLease() != 0 {
		t.Errorf("the longest lease of none is %v", m.LongestLease())
	}
}

// moved are the counters that have moved.
func moved(t taken) []string { return keys(t, func(x counterMoved) string { return x.counter }) }

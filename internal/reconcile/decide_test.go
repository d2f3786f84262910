package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

func TestDecideTakesItsPart(t *testing.T) {
	now := time.Unix(1_000, 0)
	calm := Calm{Quiet: time.Minute, Up: time.Minute, Outage: -1}
	policy := Policy{Settle: 10 * time.Second, FirstQuiet: time.Second}
	for _, tc := range []struct {
		name    string
		key     KeyState
		change  func(*Snapshot)
		claim   bool
		release *cluster.HandOver
		again   time.Duration
	}{
		{name: "shall own", key: KeyState{Planned: "me"}, claim: true},
		{name: "another's", key: KeyState{Planned: "b"}},
		{name: "its owner lives", key: KeyState{Planned: "me", Taken: true}},
		{name: "runs where it shall", key: KeyState{Planned: "me", Hold: Running}},
		{name: "fresh", key: KeyState{Planned: "me", Fresh: true}, claim: true},
		{
			name: "fresh, membership just changed", key: KeyState{Planned: "me", Fresh: true},
			again:  900 * time.Millisecond,
			change: func(s *Snapshot) { s.Calm.Quiet, s.Calm.Up = 100*time.Millisecond, 100*time.Millisecond },
		},
		{
			name: "fresh, membership never at rest", key: KeyState{Planned: "me", Fresh: true},
			claim: true, again: 9900 * time.Millisecond,
			change: func(s *Snapshot) { s.Calm.Quiet = 100 * time.Millisecond; s.Calm.Up = maxFirstWait },
		},
		{
			name: "moves", key: KeyState{Planned: "b", Hold: Running, Why: Why{record.ReasonBalance, "even"}},
			release: &cluster.HandOver{Key: "g/1", Next: "b", Reason: record.ReasonBalance, Message: "even"},
		},
		{name: "moves, not running yet", key: KeyState{Planned: "b", Hold: Starting}},
		{name: "moves already", key: KeyState{Planned: "b", Hold: Releasing}},
		{
			name: "paused", key: KeyState{Hold: Running, Suspend: true, Why: Why{record.ReasonPaused, "paused"}},
			release: &cluster.HandOver{Key: "g/1", Suspend: true, Reason: record.ReasonPaused, Message: "paused"},
		},
		{
			name: "removed", key: KeyState{Planned: "me", Hold: Starting, Removed: true},
			release: &cluster.HandOver{Key: "g/1", Suspend: true, Reason: record.ReasonRemoved},
		},
		{
			name: "drain", key: KeyState{Planned: "b", Hold: Running}, change: func(s *Snapshot) { s.Draining = true },
			release: &cluster.HandOver{Key: "g/1", Next: "b", Reason: record.ReasonShutdown},
		},
		{
			name:    "drain to a newer revision",
			key:     KeyState{Planned: "b", Hold: Running, Why: Why{record.ReasonUpgrade, "rolled"}},
			change:  func(s *Snapshot) { s.Draining = true },
			release: &cluster.HandOver{Key: "g/1", Next: "b", Reason: record.ReasonUpgrade, Message: "rolled"},
		},
		{
			name: "drain with a grace", key: KeyState{Planned: "b", Hold: Starting},
			change:  func(s *Snapshot) { s.Draining, s.Policy.RestartGrace = true, time.Minute },
			release: &cluster.HandOver{Key: "g/1", Reason: record.ReasonShutdown},
		},
		{
			name: "drain of what is not held", key: KeyState{Planned: "me"},
			change: func(s *Snapshot) { s.Draining = true },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.key.Key = "g/1"
			s := Snapshot{Session: "me", Policy: policy, Calm: calm, Keys: []KeyState{tc.key}}
			if tc.change != nil {
				tc.change(&s)
			}
			d := Decide(s, now)
			if got := len(d.Claim) == 1; got != tc.claim {
				t.Errorf("claims %v", d.Claim)
			}
			var want []cluster.HandOver
			if tc.release != nil {
				want = []cluster.HandOver{*tc.release}
			}
			if !slices.Equal(d.Release, want) {
				t.Errorf("releases %+v, want %+v", d.Release, want)
			}
			if d.Again != tc.again {
				t.Errorf("again in %v, want %v", d.Again, tc.again)
			}
		})
	}
}

func TestMaxMovesCountsHandOversUnderWay(t *testing.T) {
	s := Snapshot{Session: "me", Policy: Policy{MaxMoves: 2}, Calm: Calm{Outage: -1}, Keys: []KeyState{
		{Key: "g/1", Planned: "b", Hold: Releasing},
		{Key: "g/2", Planned: "b", Hold: Running},
		{Key: "g/3", Planned: "b", Hold: Running},
		{Key: "g/4", Hold: Running, Suspend: true},
		{Key: "h/1", Planned: "b", Hold: Running},
	}}
	var keys []elect.Key
	for _, m := range Decide(s, time.Unix(0, 0)).Release {
		keys = append(keys, m.Key)
	}
	if want := []elect.Key{"g/2", "g/4", "h/1"}; !slices.Equal(keys, want) {
		t.Errorf("releases %v, want %v: one more of g, what is paused, and one of h", keys, want)
	}
}

func TestDrainGoesInWaves(t *testing.T) {
	s := Snapshot{Session: "me", Draining: true}
	for i := range 50 {
		s.Keys = append(s.Keys, KeyState{Key: elect.NewKey("g", fmt.Sprintf("%02d", i)), Planned: "b", Hold: Running})
	}
	now := time.Unix(1_000, 0)
	for wave := range 10 {
		d := Decide(s, now)
		if len(d.Release) != 5 || d.Release[0].Key != s.Keys[0].Key {
			t.Fatalf("wave %d: %v", wave, d.Release)
		}
		s.Wave, s.Keys = d.Wave, s.Keys[5:]
		early := Decide(s, now.Add(wavePause/2))
		if len(early.Release) > 0 || len(s.Keys) > 0 && early.Again != wavePause/2 {
			t.Fatalf("wave %d is followed at once by %v, again in %v", wave, early.Release, early.Again)
		}
		now = now.Add(wavePause)
	}
}

// TestClientsTakeNoPart holds that a session that declares no groups takes no part in the balance, as a process that
// only wants a lock. It differs from no list, gets no key and unsettles no membership. Its revision of the lists does
// not count.
func TestClientsTakeNoPart(t *testing.T) {
	member := func(id string, lists map[string]string) cluster.Session {
		return cluster.Session{
			ID: id, State: record.Live, Known: true, Member: elect.Member{Session: id, Instance: id, ListHashes: lists},
		}
	}
	now := time.UnixMilli(1_000_000)
	declared := Declared{
		Revision: 1, Groups: []DeclaredGroup{{Name: "g", Hash: "1", Keys: []DeclaredKey{{Key: "g/1"}, {Key: "g/2"}}}},
	}
	view := &cluster.View{
		Session: "a", Instance: "a", Open: true, Loaded: true, Outage: -1,
		Sessions: []cluster.Session{member("a", map[string]string{"g": "1"})},
		Locks:    map[elect.Key]*record.Lock{}, Held: map[elect.Key]cluster.Held{"g/gone": {}},
	}
	past := history{}.follow(view, declared, now)
	client := member("lock", nil)
	client.Member.ListRevision = 7
	joined := *view
	joined.Sessions = append(joined.Sessions, client)
	later := now.Add(time.Hour)
	after := past.follow(&joined, declared, later)
	if !after.since.Equal(now) {
		t.Errorf("the membership counts as changed at %v, when the client came", after.since)
	}
	d, report := newSituation(&joined, declared, Policy{}, after.calm(&joined, later)).decide(Wave{}, later)
	if len(report.Differs) != 0 {
		t.Errorf("lists differ: %v", report.Differs)
	}
	if len(d.Claim) != 2 {
		t.Errorf("claims %v, want both keys", d.Claim)
	}
	if len(d.Release) != 1 || d.Release[0].Key != "g/gone" {
		t.Errorf("releases %v, want the key that is declared no longer", d.Release)
	}

	// Without hashes nothing says who declares what: all take part.
	declared.Groups[0].Hash = ""
	if in := newSituation(&joined, declared, Policy{}, after.calm(&joined, later)).inputOf(); len(in.Members) != 2 {
		t.Errorf("members %v", in.Members)
	}
}

// A discovered key that was released as removed is claimed only by who has read the list since: this replica's list may
// be the one before.
func TestRemovedKeysWaitForTheList(t *testing.T) {
	const key = elect.Key("g/001")
	for what, c := range map[string]struct {
		lock       record.Lock
		discovered bool
		asOf       int64
		want       bool
	}{
		"by a newer list than is known": {
			record.Lock{Rev: 100, Token: 90, Suspended: true, Reason: record.ReasonRemoved}, true, 99, false,
		},
		"before the list was read": {
			record.Lock{Rev: 100, Token: 90, Suspended: true, Reason: record.ReasonRemoved}, true, 100, true,
		},
		"of a list in the files": {
			record.Lock{Rev: 100, Token: 90, Suspended: true, Reason: record.ReasonRemoved}, false, 99, true,
		},
		"an orphan":             {record.Lock{Rev: 100, Token: 90, Session: "gone"}, true, 99, true},
		"released by who stops": {record.Lock{Rev: 100, Token: 90, Reason: record.ReasonShutdown}, true, 99, true},
	} {
		v, d := seenBy(0, 0)
		d.Groups[0].Keys = []DeclaredKey{{Key: key, Discovered: c.discovered}}
		d.Groups[0].AsOf = func() int64 { return c.asOf }
		c.lock.Key = key
		v.Locks[key] = &c.lock
		claimed := false
		for _, me := range []string{"A", "B"} { // one of them has to
			v.Session = me
			decision, _ := decideFor(v, d, Policy{})
			claimed = claimed || slices.Contains(decision.Claim, key)
		}
		if claimed != c.want {
			t.Errorf("%s: claimed %v", what, claimed)
		}
	}
}

// A replica may hold very many keys that stay: only what leaves is decided about.
func TestWhatStaysIsNotDecidedAbout(t *testing.T) {
	v, d := seenBy(6)
	v.Held["g/gone"] = cluster.Held{Phase: cluster.PhaseRunning}
	s := newSituation(v, d, Policy{}, Calm{Quiet: time.Minute, Up: time.Minute, Outage: -1})
	in := s.inputOf()
	part := s.part(in, balancer.Balance(in))
	if len(part) != 1 || part[0].Key != "g/gone" || !part[0].Removed {
		t.Errorf("%+v, want the key that is declared no longer", part)
	}
}

// A lock that is no task's stays, declared or not, and is released when the replica stops.
func TestChoresAreNotReleased(t *testing.T) {
	v, d := seenBy(1)
	const chore = elect.Key("~discovery/g")
	v.Held[chore] = cluster.Held{Phase: cluster.PhaseRunning}
	v.Locks[chore] = &record.Lock{Key: chore, Session: "A", Token: 1}
	d.Chores = []string{"~discovery"}
	released := func() bool {
		decision, _ := decideFor(v, d, Policy{})
		return slices.ContainsFunc(decision.Release, func(h cluster.HandOver) bool { return h.Key == chore })
	}
	if released() {
		t.Error("released although nothing stops")
	}
	v.Draining = true
	if !released() {
		t.Error("not released at the end")
	}
	if names := d.Names(); !slices.Equal(names, []string{"g", "~discovery"}) {
		t.Errorf("tracked are %v", names)
	}
}

// The room of a long list is used again for one as long, and let go once the list has become short.
func TestRoomOfKeys(t *testing.T) {
	long := make([]balancer.Key, 10_000)
	long[9_999].Key = "g/removed"
	if room := roomOf(long[:9_000]); cap(room) != 10_000 || room[:10_000][9_999].Key != "" {
		t.Errorf("of 9,000 keys: room for %d, the last of before %q", cap(room), room[:10_000][9_999].Key)
	}
	if room := roomOf(long[:10]); room != nil {
		t.Errorf("of 10 keys: room for %d", cap(room))
	}
}

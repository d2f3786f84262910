package ballot_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

func numbered(counter int64, by byte) ballot.Ballot {
	return ballot.Ballot{Counter: counter, Proposer: ballot.Proposer{by}}
}

func TestAcceptor(t *testing.T) {
	var a ballot.Acceptor[string]
	a, ok := a.Prepare(numbered(2, 1))
	if again, twice := a.Prepare(numbered(2, 1)); !ok || !twice || again != a {
		t.Fatalf("a promise, and the same again: %t, %t", ok, twice)
	}
	if _, ok := a.Prepare(numbered(1, 9)); ok {
		t.Error("an older ballot is promised")
	}
	if _, ok := a.Accept(numbered(1, 9), "old", ballot.Ballot{}); ok {
		t.Error("an older ballot is accepted")
	}
	a, ok = a.Accept(numbered(2, 1), "x", numbered(3, 1))
	if !ok || a.Promised != numbered(3, 1) || a.Accepted.Value != "x" {
		t.Fatalf("accepted %+v, %t", a, ok)
	}
	if again, ok := a.Accept(numbered(2, 1), "x", numbered(3, 1)); !ok || again != a {
		t.Error("the same acceptance, twice, is refused or changes something")
	}
	if _, ok := a.Prepare(numbered(3, 0)); ok {
		t.Error("the next ballot was promised with the acceptance, and a lower one is taken")
	}
	floored := ballot.Acceptor[string]{Floor: 7}
	if _, ok := floored.Prepare(numbered(7, 9)); ok {
		t.Error("a ballot at the floor is promised")
	}
	if _, ok := floored.Accept(numbered(8, 0), "x", ballot.Ballot{}); !ok {
		t.Error("a ballot above the floor is refused")
	}
}

// servers are asked in order; those that are down are left out.
type servers [3]struct {
	ballot.Acceptor[string]

	down bool
}

func (s *servers) round(r *ballot.Round[string], propose func(string) string) {
	for r.Phase < ballot.Chosen {
		before := r.Phase
		for i := range s {
			if s[i].down {
				continue
			}
			var ok bool
			switch before {
			case ballot.Preparing:
				s[i].Acceptor, ok = s[i].Prepare(r.Ballot)
				r.Promised(i, s[i].Acceptor, ok)
			case ballot.Judging:
				r.Propose(propose(r.Found.Value))
			default:
				s[i].Acceptor, ok = s[i].Accept(r.Ballot, r.Value, r.Next)
				r.Took(i, s[i].Acceptor, ok)
			}
		}
		if r.Phase == before {
			return
		}
	}
}

func plus(text string) func(string) string { return func(v string) string { return v + text } }

// The first change asks for promises, the next one does not, and another process takes over above both.
func TestRounds(t *testing.T) {
	var s servers
	var mine, other ballot.Memory[string]
	name := ballot.Proposer{1}
	for i, prepared := range []bool{true, false, false} {
		r := mine.Begin(name, 3)
		s.round(&r, plus("a"))
		if r.Phase != ballot.Chosen || r.Prepared() != prepared || r.Value != strings.Repeat("a", i+1) {
			t.Fatalf("change %d: %+v", i, r)
		}
		mine.End(r)
	}
	r := other.Begin(ballot.Proposer{2}, 3)
	s.round(&r, plus("b"))
	if r.Phase != ballot.Failed {
		t.Fatalf("a process that knows no ballots: %+v", r)
	}
	other.End(r)
	r = other.Begin(ballot.Proposer{2}, 3)
	s.round(&r, plus("b"))
	if r.Phase != ballot.Chosen || r.Value != "aaab" {
		t.Fatalf("above the ballots that it was shown: %+v", r)
	}
	other.End(r)
	r = mine.Begin(name, 3)
	s.round(&r, plus("a"))
	if r.Phase != ballot.Failed {
		t.Fatalf("what was remembered is not refused: %+v", r)
	}
	mine.End(r)
	r = mine.Begin(name, 3)
	s.round(&r, plus("a"))
	if r.Phase != ballot.Chosen || r.Value != "aaaba" || !r.Prepared() {
		t.Fatalf("after the refusal: %+v", r)
	}
}

// A majority is enough, and less is not.
func TestRoundWithServersDown(t *testing.T) {
	var s servers
	var m ballot.Memory[string]
	s[1].down = true
	r := m.Begin(ballot.Proposer{1}, 3)
	s.round(&r, plus("a"))
	if r.Phase != ballot.Chosen {
		t.Fatalf("with two of three: %+v", r)
	}
	m.End(r)
	s[2].down = true
	r = m.Begin(ballot.Proposer{1}, 3)
	s.round(&r, plus("b"))
	if r.Phase != ballot.Accepting {
		t.Fatalf("with one of three: %+v", r)
	}
	m.End(r)
	s[1].down, s[2].down = false, false
	m.Forget()
	r = m.Begin(ballot.Proposer{1}, 3)
	if !r.Prepared() {
		t.Fatal("what was forgotten is gone on from")
	}
	if s.round(&r, plus("")); r.Phase != ballot.Chosen || r.Value != "ab" {
		t.Fatalf("what one server has accepted under the highest ballot: %+v", r)
	}
}

func TestSawBeginsAbove(t *testing.T) {
	var m ballot.Memory[string]
	m.Saw(ballot.Acceptor[string]{Floor: 9, Promised: numbered(4, 1)})
	if r := m.Begin(ballot.Proposer{1}, 3); r.Ballot.Counter != 10 {
		t.Fatalf("ballot %+v, want above the floor that was shown", r.Ballot)
	}
}

func TestReading(t *testing.T) {
	at := func(counter int64) ballot.Acceptor[string] {
		return ballot.Acceptor[string]{Accepted: ballot.Accepted[string]{Ballot: numbered(counter, 1), Value: "x"}}
	}
	for name, tt := range map[string]struct {
		shown []ballot.Acceptor[string]
		want  bool
	}{
		"none":                 {nil, false},
		"one":                  {[]ballot.Acceptor[string]{at(1)}, false},
		"two of three":         {[]ballot.Acceptor[string]{at(1), at(1)}, true},
		"two that differ":      {[]ballot.Acceptor[string]{at(1), at(2)}, false},
		"two, and one beyond":  {[]ballot.Acceptor[string]{at(2), at(1), at(1)}, true},
		"absent at two":        {[]ballot.Acceptor[string]{{}, {}}, true},
		"absent at one of two": {[]ballot.Acceptor[string]{{}, at(1)}, false},
	} {
		r := ballot.Read[string](3)
		for i, a := range tt.shown {
			r.Shown(i, a)
		}
		if _, ok := r.Agreed(); ok != tt.want || r.Answers() != len(tt.shown) {
			t.Errorf("%s: agreed %t, want %t", name, ok, tt.want)
		}
	}
	r := ballot.Read[string](5)
	for i := range 2 {
		r.Shown(i, at(1))
	}
	if _, ok := r.Agreed(); ok {
		t.Error("two of five agree")
	}
}

func TestJudge(t *testing.T) {
	mine, other := driver.WriterID{Session: "me", Seq: 1}, driver.WriterID{Session: "you", Seq: 1}
	doc := func(rev int64, by driver.WriterID) driver.Doc {
		return driver.Doc{Kind: driver.KindLock, ID: "g/a", Rev: rev, WriterID: by}
	}
	create := func(rev int64) driver.Change { return driver.Change{Doc: doc(rev, mine)} }
	replace := func(rev int64) driver.Change { return driver.Change{IfRev: rev, Doc: doc(rev+1, mine)} }
	own := driver.Change{IfRev: 3, Doc: doc(4, other)}
	remove := driver.Change{Op: driver.Delete, IfRev: 4, Doc: doc(0, mine)}
	tomb := func(by driver.WriterID) ballot.Value { return ballot.Value{Is: ballot.Deleted, Doc: doc(4, by)} }
	live := ballot.Value{Is: ballot.Live, Doc: doc(4, other)}
	// Deleted by somebody without a writer ID, and created again.
	_, again, _ := ballot.Judge(driver.Change{Doc: doc(7, other)},
		ballot.Value{Is: ballot.Deleted, Doc: doc(4, driver.WriterID{})}, false)
	for name, tt := range map[string]struct {
		c       driver.Change
		on      ballot.Value
		sent    bool
		want    driver.Status
		is      ballot.Is
		changes bool
	}{
		"create where nothing is":            {create(1), ballot.Value{}, false, driver.Applied, ballot.Live, true},
		"create above a tombstone":           {create(5), tomb(other), false, driver.Applied, ballot.Live, true},
		"create at the tombstone's revision": {create(4), tomb(other), false, driver.Overtaken, ballot.Deleted, false},
		"create below it, sent before":       {create(3), tomb(other), true, driver.Overtaken, ballot.Deleted, false},
		"create over a document":             {create(5), live, false, driver.Refused, ballot.Live, false},
		"delete":                             {remove, live, false, driver.Applied, ballot.Deleted, true},
		"delete, and it was this call":       {remove, tomb(mine), true, driver.Applied, ballot.Deleted, false},
		"delete, and it was an earlier call": {remove, tomb(mine), false, driver.Overtaken, ballot.Deleted, false},
		"delete, and it was somebody else":   {remove, tomb(other), true, driver.Overtaken, ballot.Deleted, false},
		"delete it again, without a writer ID": {
			driver.Change{Op: driver.Delete, IfRev: 7, Doc: doc(0, driver.WriterID{})},
			again, true, driver.Applied,
			ballot.Deleted, true,
		},
		"replace a document that was deleted":  {replace(4), tomb(other), false, driver.Overtaken, ballot.Deleted, false},
		"replace a document, and it was mine":  {own, live, false, driver.Applied, ballot.Live, false},
		"replace a document as it was before":  {replace(3), live, false, driver.Refused, ballot.Live, false},
		"replace a document as it stands":      {replace(4), live, false, driver.Applied, ballot.Live, true},
		"replace one that was written since":   {replace(2), live, false, driver.Overtaken, ballot.Live, false},
		"replace where nothing was ever found": {replace(2), ballot.Value{}, false, driver.Overtaken, ballot.Absent, false},
	} {
		out, v, changes := ballot.Judge(tt.c, tt.on, tt.sent)
		if out.Status != tt.want || v.Is != tt.is || changes != tt.changes {
			t.Errorf("%s: got %v, %v, changes %t", name, out.Status, v.Is, changes)
		}
		if v.Is == ballot.Deleted &&
			(out.Doc != nil || v.Document() != nil || v.Doc.Rev != tt.c.IfRev && v.Doc.Rev != 4) {
			t.Errorf("%s: a deleted document is shown: %+v, or without its revision: %+v", name, out.Doc, v.Doc)
		}
	}
}

func TestRemoval(t *testing.T) {
	at := func(accepted, promised int64) ballot.Acceptor[string] {
		return ballot.Acceptor[string]{
			Promised: numbered(promised, 1), Accepted: ballot.Accepted[string]{Ballot: numbered(accepted, 1)},
		}
	}
	shown := func(of int, records ...ballot.Acceptor[string]) (int64, bool) {
		r := ballot.Remove[string](of)
		for i, a := range records {
			r.Shown(i, a, true)
		}
		return r.Floor()
	}
	if floor, ok := shown(3, at(4, 4), at(4, 9), at(4, 5)); floor != 9 || !ok {
		t.Errorf("floor %d, %t; want the largest promise, 9", floor, ok)
	}
	if _, ok := shown(3, at(4, 4), at(4, 4)); ok {
		t.Error("removed at two of three")
	}
	if _, ok := shown(3, at(4, 4), at(4, 4), at(3, 4)); ok {
		t.Error("removed where servers differ")
	}
	r := ballot.Remove[string](1)
	r.Shown(0, at(4, 4), false)
	if _, ok := r.Floor(); ok {
		t.Error("a live document is removed")
	}
}

// However majorities change, the sum never falls, and each acknowledged increment raises it for a reader of a majority.
func TestCounter(t *testing.T) {
	var servers [3]ballot.Count
	var reader ballot.Counter
	last := ballot.Count{}
	for i := range int64(60) {
		for j := range int64(2) { // a majority counts it
			s := &servers[(i+j)%3]
			s.Count, s.Rev = s.Count+1, max(s.Rev, 100+i)
		}
		for j := range int64(2) {
			at := int((i*i + j) % 3)
			reader.Shown(at, servers[at])
		}
		if sum := reader.Sum(); sum.Count <= last.Count || sum.Rev < 100+i {
			t.Fatalf("increment %d: %+v after %+v", i, sum, last)
		}
		last = reader.Sum()
	}
	reader.Shown(0, ballot.Count{})
	if reader.Sum() != last {
		t.Error("a server that forgot makes the sum fall")
	}
}

func TestClock(t *testing.T) {
	var c ballot.Clock
	for _, tt := range []struct {
		times []int64
		want  int64
	}{
		{[]int64{500, 7, 100}, 100},
		{[]int64{90, 200}, 100},
		{[]int64{1, 2, 3, 150, 900}, 100},
		{nil, 100},
		{[]int64{130, 120}, 120},
	} {
		if got := c.Now(tt.times...); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.times, got, tt.want)
		}
	}
}

func TestMerge(t *testing.T) {
	page := func(ids string, cut bool) ballot.Page { return ballot.Page{IDs: strings.Fields(ids), Cut: cut} }
	for name, tt := range map[string]struct {
		pages   []ballot.Page
		reverse bool
		want    string
		whole   bool
	}{
		"none":              {nil, false, "", true},
		"whole":             {[]ballot.Page{page("b d", false), page("a b", false)}, false, "a b d", true},
		"cut at one":        {[]ballot.Page{page("a c", true), page("b d", false)}, false, "a b c", false},
		"cut at both":       {[]ballot.Page{page("a d", true), page("a b", true)}, false, "a b", false},
		"backwards":         {[]ballot.Page{page("d b", false), page("c a", false)}, true, "d c b a", true},
		"cut and backwards": {[]ballot.Page{page("d b", true), page("c a", false)}, true, "d c b", false},
	} {
		ids, whole := ballot.Merge(tt.pages, tt.reverse)
		if strings.Join(ids, " ") != tt.want || whole != tt.whole {
			t.Errorf("%s: got %v, %t", name, ids, whole)
		}
	}
}

package quorum_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/quorum"
)

func ballot(counter int64, by byte) quorum.Ballot {
	return quorum.Ballot{Counter: counter, Proposer: quorum.Proposer{by}}
}

func TestAcceptor(t *testing.T) {
	var a quorum.Acceptor[string]
	a, ok := a.Prepare(ballot(2, 1))
	if again, twice := a.Prepare(ballot(2, 1)); !ok || !twice || again != a {
		t.Fatalf("a promise, and the same again: %t, %t", ok, twice)
	}
	if _, ok := a.Prepare(ballot(1, 9)); ok {
		t.Error("an older ballot is promised")
	}
	if _, ok := a.Accept(ballot(1, 9), "old", quorum.Ballot{}); ok {
		t.Error("an older ballot is accepted")
	}
	a, ok = a.Accept(ballot(2, 1), "x", ballot(3, 1))
	if !ok || a.Promised != ballot(3, 1) || a.Accepted.Value != "x" {
		t.Fatalf("accepted %+v, %t", a, ok)
	}
	if again, ok := a.Accept(ballot(2, 1), "x", ballot(3, 1)); !ok || again != a {
		t.Error("the same acceptance, twice, is refused or changes something")
	}
	if _, ok := a.Prepare(ballot(3, 0)); ok {
		t.Error("the next ballot was promised with the acceptance, and a lower one is taken")
	}
	floored := quorum.Acceptor[string]{Floor: 7}
	if _, ok := floored.Prepare(ballot(7, 9)); ok {
		t.Error("a ballot at the floor is promised")
	}
	if _, ok := floored.Accept(ballot(8, 0), "x", quorum.Ballot{}); !ok {
		t.Error("a ballot above the floor is refused")
	}
}

// servers are asked in order; those that are down are left out.
type servers [3]struct {
	quorum.Acceptor[string]

	down bool
}

func (s *servers) round(r *quorum.Round[string], propose func(string) string) {
	for r.Phase < quorum.Chosen {
		before := r.Phase
		for i := range s {
			if s[i].down {
				continue
			}
			var ok bool
			switch before {
			case quorum.Preparing:
				s[i].Acceptor, ok = s[i].Prepare(r.Ballot)
				r.Promised(i, s[i].Acceptor, ok)
			case quorum.Judging:
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
	var mine, other quorum.Memory[string]
	name := quorum.Proposer{1}
	for i, prepared := range []bool{true, false, false} {
		r := mine.Begin(name, 3)
		s.round(&r, plus("a"))
		if r.Phase != quorum.Chosen || r.Prepared() != prepared || r.Value != strings.Repeat("a", i+1) {
			t.Fatalf("change %d: %+v", i, r)
		}
		mine.End(r)
	}
	r := other.Begin(quorum.Proposer{2}, 3)
	s.round(&r, plus("b"))
	if r.Phase != quorum.Failed {
		t.Fatalf("a process that knows no ballots: %+v", r)
	}
	other.End(r)
	r = other.Begin(quorum.Proposer{2}, 3)
	s.round(&r, plus("b"))
	if r.Phase != quorum.Chosen || r.Value != "aaab" {
		t.Fatalf("above the ballots that it was shown: %+v", r)
	}
	other.End(r)
	r = mine.Begin(name, 3)
	s.round(&r, plus("a"))
	if r.Phase != quorum.Failed {
		t.Fatalf("what was remembered is not refused: %+v", r)
	}
	mine.End(r)
	r = mine.Begin(name, 3)
	s.round(&r, plus("a"))
	if r.Phase != quorum.Chosen || r.Value != "aaaba" || !r.Prepared() {
		t.Fatalf("after the refusal: %+v", r)
	}
}

// A majority is enough, and less is not.
func TestRoundWithServersDown(t *testing.T) {
	var s servers
	var m quorum.Memory[string]
	s[1].down = true
	r := m.Begin(quorum.Proposer{1}, 3)
	s.round(&r, plus("a"))
	if r.Phase != quorum.Chosen {
		t.Fatalf("with two of three: %+v", r)
	}
	m.End(r)
	s[2].down = true
	r = m.Begin(quorum.Proposer{1}, 3)
	s.round(&r, plus("b"))
	if r.Phase != quorum.Accepting {
		t.Fatalf("with one of three: %+v", r)
	}
	m.End(r)
	s[1].down, s[2].down = false, false
	m.Forget()
	r = m.Begin(quorum.Proposer{1}, 3)
	if !r.Prepared() {
		t.Fatal("what was forgotten is gone on from")
	}
	if s.round(&r, plus("")); r.Phase != quorum.Chosen || r.Value != "ab" {
		t.Fatalf("what one server has accepted under the highest ballot: %+v", r)
	}
}

func TestSawBeginsAbove(t *testing.T) {
	var m quorum.Memory[string]
	m.Saw(quorum.Acceptor[string]{Floor: 9, Promised: ballot(4, 1)})
	if r := m.Begin(quorum.Proposer{1}, 3); r.Ballot.Counter != 10 {
		t.Fatalf("ballot %+v, want above the floor that was shown", r.Ballot)
	}
}

func TestReading(t *testing.T) {
	at := func(counter int64) quorum.Acceptor[string] {
		return quorum.Acceptor[string]{Accepted: quorum.Accepted[string]{Ballot: ballot(counter, 1), Value: "x"}}
	}
	for name, tt := range map[string]struct {
		shown []quorum.Acceptor[string]
		want  bool
	}{
		"none":                 {nil, false},
		"one":                  {[]quorum.Acceptor[string]{at(1)}, false},
		"two of three":         {[]quorum.Acceptor[string]{at(1), at(1)}, true},
		"two that differ":      {[]quorum.Acceptor[string]{at(1), at(2)}, false},
		"two, and one beyond":  {[]quorum.Acceptor[string]{at(2), at(1), at(1)}, true},
		"absent at two":        {[]quorum.Acceptor[string]{{}, {}}, true},
		"absent at one of two": {[]quorum.Acceptor[string]{{}, at(1)}, false},
	} {
		r := quorum.Read[string](3)
		for i, a := range tt.shown {
			r.Shown(i, a)
		}
		if _, ok := r.Agreed(); ok != tt.want || r.Answers() != len(tt.shown) {
			t.Errorf("%s: agreed %t, want %t", name, ok, tt.want)
		}
	}
	r := quorum.Read[string](5)
	for i := range 2 {
		r.Shown(i, at(1))
	}
	if _, ok := r.Agreed(); ok {
		t.Error("two of five agree")
	}
}

func TestJudge(t *testing.T) {
	mine, other := store.WriterID{Session: "me", Seq: 1}, store.WriterID{Session: "you", Seq: 1}
	doc := func(rev int64, by store.WriterID) store.Doc {
		return store.Doc{Kind: store.KindLock, ID: "g/a", Rev: rev, WriterID: by}
	}
	create := func(rev int64) store.Change { return store.Change{Doc: doc(rev, mine)} }
	replace := func(rev int64) store.Change { return store.Change{IfRev: rev, Doc: doc(rev+1, mine)} }
	own := store.Change{IfRev: 3, Doc: doc(4, other)}
	remove := store.Change{Op: store.Delete, IfRev: 4, Doc: doc(0, mine)}
	tomb := func(by store.WriterID) quorum.Value { return quorum.Value{Is: quorum.Deleted, Doc: doc(4, by)} }
	live := quorum.Value{Is: quorum.Live, Doc: doc(4, other)}
	// Deleted by somebody without a writer ID, and created again.
	_, again, _ := quorum.Judge(store.Change{Doc: doc(7, other)},
		quorum.Value{Is: quorum.Deleted, Doc: doc(4, store.WriterID{})}, false)
	for name, tt := range map[string]struct {
		c       store.Change
		on      quorum.Value
		sent    bool
		want    store.Status
		is      quorum.Is
		changes bool
	}{
		"create where nothing is":            {create(1), quorum.Value{}, false, store.Applied, quorum.Live, true},
		"create above a tombstone":           {create(5), tomb(other), false, store.Applied, quorum.Live, true},
		"create at the tombstone's revision": {create(4), tomb(other), false, store.Overtaken, quorum.Deleted, false},
		"create below it, sent before":       {create(3), tomb(other), true, store.Overtaken, quorum.Deleted, false},
		"create over a document":             {create(5), live, false, store.Refused, quorum.Live, false},
		"delete":                             {remove, live, false, store.Applied, quorum.Deleted, true},
		"delete, and it was this call":       {remove, tomb(mine), true, store.Applied, quorum.Deleted, false},
		"delete, and it was an earlier call": {remove, tomb(mine), false, store.Overtaken, quorum.Deleted, false},
		"delete, and it was somebody else":   {remove, tomb(other), true, store.Overtaken, quorum.Deleted, false},
		"delete it again, without a writer ID": {
			store.Change{Op: store.Delete, IfRev: 7, Doc: doc(0, store.WriterID{})},
			again, true, store.Applied,
			quorum.Deleted, true,
		},
		"replace a document that was deleted":  {replace(4), tomb(other), false, store.Overtaken, quorum.Deleted, false},
		"replace a document, and it was mine":  {own, live, false, store.Applied, quorum.Live, false},
		"replace a document as it was before":  {replace(3), live, false, store.Refused, quorum.Live, false},
		"replace a document as it stands":      {replace(4), live, false, store.Applied, quorum.Live, true},
		"replace one that was written since":   {replace(2), live, false, store.Overtaken, quorum.Live, false},
		"replace where nothing was ever found": {replace(2), quorum.Value{}, false, store.Overtaken, quorum.Absent, false},
	} {
		out, v, changes := quorum.Judge(tt.c, tt.on, tt.sent)
		if out.Status != tt.want || v.Is != tt.is || changes != tt.changes {
			t.Errorf("%s: got %v, %v, changes %t", name, out.Status, v.Is, changes)
		}
		if v.Is == quorum.Deleted &&
			(out.Doc != nil || v.Document() != nil || v.Doc.Rev != tt.c.IfRev && v.Doc.Rev != 4) {
			t.Errorf("%s: a deleted document is shown: %+v, or without its revision: %+v", name, out.Doc, v.Doc)
		}
	}
}

func TestRemoval(t *testing.T) {
	at := func(accepted, promised int64) quorum.Acceptor[string] {
		return quorum.Acceptor[string]{
			Promised: ballot(promised, 1), Accepted: quorum.Accepted[string]{Ballot: ballot(accepted, 1)},
		}
	}
	shown := func(of int, records ...quorum.Acceptor[string]) (int64, bool) {
		r := quorum.Remove[string](of)
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
	r := quorum.Remove[string](1)
	r.Shown(0, at(4, 4), false)
	if _, ok := r.Floor(); ok {
		t.Error("a live document is removed")
	}
}

// However majorities change, the sum never falls, and each acknowledged increment raises it for a reader of a majority.
func TestCounter(t *testing.T) {
	var servers [3]quorum.Count
	var reader quorum.Counter
	last := quorum.Count{}
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
	reader.Shown(0, quorum.Count{})
	if reader.Sum() != last {
		t.Error("a server that forgot makes the sum fall")
	}
}

func TestClock(t *testing.T) {
	var c quorum.Clock
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
	page := func(ids string, cut bool) quorum.Page { return quorum.Page{IDs: strings.Fields(ids), Cut: cut} }
	for name, tt := range map[string]struct {
		pages   []quorum.Page
		reverse bool
		want    string
		whole   bool
	}{
		"none":              {nil, false, "", true},
		"whole":             {[]quorum.Page{page("b d", false), page("a b", false)}, false, "a b d", true},
		"cut at one":        {[]quorum.Page{page("a c", true), page("b d", false)}, false, "a b c", false},
		"cut at both":       {[]quorum.Page{page("a d", true), page("a b", true)}, false, "a b", false},
		"backwards":         {[]quorum.Page{page("d b", false), page("c a", false)}, true, "d c b a", true},
		"cut and backwards": {[]quorum.Page{page("d b", true), page("c a", false)}, true, "d c b", false},
	} {
		ids, whole := quorum.Merge(tt.pages, tt.reverse)
		if strings.Join(ids, " ") != tt.want || whole != tt.whole {
			t.Errorf("%s: got %v, %t", name, ids, whole)
		}
	}
}

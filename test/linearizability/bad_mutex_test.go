package linearizability

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// had is a turn from asking until it gave the mutex back, seen to hold it at each moment of uses.
func had(who int, call, freed, token int64, uses ...int64) *turn {
	t := &turn{span: span{call, uses[0]}, who: who, told: true, token: token, freed: freed}
	for _, at := range uses {
		t.uses = append(t.uses, span{at, at})
	}
	return t
}

func toRead(t *turn) *turn {
	t.shared = true
	return t
}

func TestBadMutexes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind      mutexKind
		good, bad []*turn
	}{
		"two at once": {
			fair,
			[]*turn{had(1, 1, 6, 10, 3, 5), had(2, 4, 9, 11, 8)},
			[]*turn{had(1, 1, 9, 10, 3, 8), had(2, 4, 9, 11, 7)},
		},
		"another enters a lost one that still trusts its lease": {
			unfair,
			[]*turn{had(1, 1, 0, 10, 3, 5), had(2, 6, 9, 11, 8)},
			[]*turn{had(1, 1, 0, 10, 3, 9), had(2, 6, 9, 11, 8)},
		},
		"a token falls": {
			fair, []*turn{had(1, 1, 4, 10, 3), had(2, 5, 9, 11, 8)}, []*turn{had(1, 1, 4, 10, 3), had(2, 5, 9, 9, 8)},
		},
		"one token for two": {
			fair, []*turn{had(1, 1, 4, 10, 3), had(2, 5, 9, 11, 8)}, []*turn{had(1, 1, 4, 10, 3), had(2, 5, 9, 10, 8)},
		},
		"a writer beside readers": {
			readersWriter,
			[]*turn{toRead(had(1, 1, 9, 10, 3, 8)), toRead(had(2, 2, 9, 10, 4, 8)), had(3, 5, 14, 11, 12)},
			[]*turn{toRead(had(1, 1, 9, 10, 3, 8)), toRead(had(2, 2, 9, 10, 4, 8)), had(3, 5, 14, 11, 7)},
		},
		"a reader's token below a writer's": {
			readersWriter,
			[]*turn{had(1, 1, 4, 10, 3), toRead(had(2, 5, 9, 11, 8))},
			[]*turn{had(1, 1, 4, 10, 3), toRead(had(2, 5, 9, 10, 8))},
		},
		"three of two": {
			semaphore,
			[]*turn{had(1, 1, 9, 10, 3, 8), had(2, 2, 7, 11, 4, 5), had(3, 3, 12, 12, 11)},
			[]*turn{had(1, 1, 9, 10, 3, 8), had(2, 2, 9, 11, 4, 8), had(3, 3, 12, 12, 7)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := (&contended{kind: tc.kind, turns: tc.good}).judge("good"); len(found) > 0 {
				t.Error(found[0].text)
			}
			if found := (&contended{kind: tc.kind, turns: tc.bad}).judge("bad"); !rejected(found) {
				t.Error("a wrong history was accepted")
			}
		})
	}
}

// shape is a document: holders, and tickets behind a bar. Each is a claim, with its session behind an @ where that is
// not "s"; readers are in small letters.
func shape(text string) protocol.MutexDoc {
	held, queued, _ := strings.Cut(text, "|")
	var d protocol.MutexDoc
	for i, list := range []string{held, queued} {
		for name := range strings.FieldsSeq(list) {
			claim, session, named := strings.Cut(name, "@")
			if !named {
				session = "s"
			}
			shared := strings.ToLower(claim) == claim
			if i == 0 {
				d.Holders = append(d.Holders, protocol.MutexHolder{Session: session, Claim: claim, Shared: shared})
			} else {
				d.Queue = append(d.Queue, protocol.MutexTicket{Session: session, Claim: claim, Shared: shared})
			}
		}
	}
	return d
}

func TestBadQueues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind      mutexKind
		good, bad string
	}{
		"overtaken":                {fair, "A|B C > |B C > B|C", "A|B C > |B C > C|B"},
		"a newcomer overtakes":     {fair, "|B > |B C > B|C", "|B > C|B"},
		"unfair where it is not":   {unfair, "|B > C|B", "C D|B"},
		"over one who gave up":     {fair, "A|B C > |C > C|", "A|B C > |B C > C|B"},
		"not in its place":         {fair, "A|B C > A|B C D", "A|B C > A|C B"},
		"before one as old":        {fair, "A|B > A|B C", "A|B > A|C B"},
		"a place lost":             {fair, "A|B C > A|C > A|C B@new", "A|B C > A|C > A|C B"},
		"a reader over a writer":   {readersWriter, "a|b C > a b|C", "a|C b > a b|C"},
		"a writer over a reader":   {readersWriter, "|b C > b|C", "|b C > C|b"},
		"a writer beside a reader": {readersWriter, "a|b > a b|", "a|B > a B|"},
		"no place left":            {semaphore, "A|B C > A B|C", "A|B C > A C|B"},
		"three of two":             {semaphore, "A B|C > B|C > B C|", "A B|C > A B C|"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judged := func(text string) []string {
				chain := []*written{{}}
				for one := range strings.SplitSeq(text, ">") {
					chain = append(chain, &written{doc: shape(one)})
				}
				_, bad := judgeQueue(tc.kind, chain, nil)
				return bad
			}
			if bad := judged(tc.good); len(bad) > 0 {
				t.Errorf("%s: %s", tc.good, bad[0])
			}
			if len(judged(tc.bad)) == 0 {
				t.Errorf("%s was accepted", tc.bad)
			}
		})
	}
}

// A call may enter before a ticket that has seen more than it has, and so not one that was made after that.
func TestBadNewcomer(t *testing.T) {
	t.Parallel()
	waits, enters := shape("|B"), shape("C|B")
	waits.Rev, waits.Queue[0].Seen = 20, 10
	enters.Rev, enters.Queue[0].Seen, enters.Holders[0].Token = 30, 10, 30
	chain := []*written{{doc: protocol.MutexDoc{Rev: 10}, known: 5}, {doc: waits}, {doc: enters}}
	if _, bad := judgeQueue(fair, chain, map[int64]int64{30: 4}); len(bad) > 0 {
		t.Error(bad[0])
	}
	if _, bad := judgeQueue(fair, chain, map[int64]int64{30: 6}); len(bad) == 0 {
		t.Error("it was accepted")
	}
}

// keptDoc is a document with a holder, unless that is "", and how long it is kept.
func keptDoc(claim string, until, length int64) protocol.MutexDoc {
	d := shape(claim)
	d.Hold = protocol.MutexHold{UntilMs: until, ForMs: length}
	return d
}

func TestBadKeptMutexes(t *testing.T) {
	t.Parallel()
	at := func(ms int64, doc protocol.MutexDoc) *written { return &written{at: ms * 1e6, doc: doc} }
	for name, tc := range map[string]struct{ good, bad *written }{
		"by the store's clock":    {at(3, keptDoc("B", 90, 30)), at(3, keptDoc("B", 89, 30))},
		"by the time that passed": {at(31, keptDoc("B", 50, 30)), at(30, keptDoc("B", 50, 30))},
		"kept no longer":          {at(3, keptDoc("", 61, 1)), at(3, keptDoc("", 0, 0))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judged := func(last *written) []string {
				_, bad := judgeQueue(lasting, []*written{
					{}, at(1, keptDoc("A", 60, 30)), at(2, keptDoc("", 60, 30)), last,
				}, nil)
				return bad
			}
			if bad := judged(tc.good); len(bad) > 0 {
				t.Error(bad[0])
			}
			if len(judged(tc.bad)) == 0 {
				t.Error("it was accepted")
			}
		})
	}
}

// How a document came about follows from the writes that happened, whatever became of their answers. Where two may have
// been before another, it is not guessed.
func TestBadChainIsNotGuessed(t *testing.T) {
	t.Parallel()
	id := func(seq int64) driver.WriterID { return driver.WriterID{Session: "s", Seq: seq} }
	made := func(seq, ifRev, rev int64, maybe, surely bool) *written {
		return &written{by: id(seq), ifRev: ifRev, doc: protocol.MutexDoc{Rev: rev}, maybe: maybe, surely: surely}
	}
	for name, tc := range map[string]struct {
		before []*written
		want   int
	}{
		"one that is known":              {[]*written{made(1, 0, 4, true, true), made(2, 0, 4, true, false)}, 2},
		"one of which nothing is known":  {[]*written{made(1, 0, 4, true, false), made(2, 0, 4, false, false)}, 2},
		"two of which nothing is known":  {[]*written{made(1, 0, 4, true, false), made(2, 0, 4, true, false)}, 1},
		"none that can have been before": {[]*written{made(1, 0, 3, true, true)}, 1},
	} {
		q := newQueues()
		q.all["locks/m"] = map[driver.WriterID]*written{id(9): made(9, 4, 5, true, true)}
		for _, w := range tc.before {
			q.all["locks/m"][w.by] = w
		}
		if chain := q.chain(driver.Doc{ID: "locks/m", WriterID: id(9)}); len(chain) != tc.want {
			t.Errorf("%s: %d writes, want %d", name, len(chain), tc.want)
		}
	}
}

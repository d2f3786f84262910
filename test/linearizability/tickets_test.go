package linearizability

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	electrecord "github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// written is one write of a mutex's document.
type written struct {
	by     driver.WriterID
	at     int64 // when it was sent first
	ifRev  int64
	doc    protocol.MutexDoc
	maybe  bool  // it may have happened
	surely bool  // it has
	known  int64 // when that was known first; 0: it was not
}

// happened notes that it has.
func (w *written) happened() {
	if w.surely = true; w.known == 0 {
		w.known = now()
	}
}

// queues are all writes of mutexes, by the documents' ids, and by who wrote them.
type queues struct {
	mu  sync.Mutex
	all map[string]map[driver.WriterID]*written
}

func newQueues() *queues { return &queues{all: map[string]map[driver.WriterID]*written{}} }

// sent notes a write that was sent at a moment, and what came of it.
func (q *queues) sent(at int64, c driver.Change, status driver.Status) {
	doc, err := electrecord.MutexFrom(c.Doc)
	if c.Doc.Kind != driver.KindMutex || c.Op != driver.Put || err != nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	of := q.all[c.Doc.ID]
	if of == nil {
		of = map[driver.WriterID]*written{}
		q.all[c.Doc.ID] = of
	}
	w := of[c.Doc.WriterID]
	if w == nil {
		w = &written{by: c.Doc.WriterID, at: at, ifRev: c.IfRev, doc: doc}
		of[c.Doc.WriterID] = w
	}
	w.at = min(w.at, at)
	if w.maybe = w.maybe || status != driver.Refused; status == driver.Applied {
		w.happened()
	}
}

// shown notes a document that the store has shown: its write happened.
func (q *queues) shown(docs ...driver.Doc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, d := range docs {
		if w := q.all[d.ID][d.WriterID]; w != nil {
			w.happened()
		}
	}
}

// chain is how a document came about: each write that happened, the first one first. It begins later where it cannot be
// said which of several writes it was.
func (q *queues) chain(newest driver.Doc) []*written {
	q.mu.Lock()
	defer q.mu.Unlock()
	var chain []*written
	for w := q.all[newest.ID][newest.WriterID]; w != nil; {
		chain = append(chain, w)
		var before []*written
		for _, b := range q.all[newest.ID] {
			if b.doc.Rev == w.ifRev && (b.maybe || b.surely) {
				before = append(before, b)
			}
		}
		if slices.ContainsFunc(before, func(b *written) bool { return b.surely }) {
			before = slices.DeleteFunc(before, func(b *written) bool { return !b.surely })
		}
		if w = nil; len(before) == 1 {
			w = before[0]
		}
	}
	slices.Reverse(chain)
	return chain
}

// noting is a store that notes what happens to mutexes, below all faults on the way.
type noting struct {
	store.Store
	queues *queues
}

func (s noting) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	at := now()
	outs, err := s.Store.Apply(ctx, changes...)
	for i, out := range outs {
		s.queues.sent(at, changes[i], out.Status)
		if out.Doc != nil {
			s.queues.shown(*out.Doc)
		}
	}
	return outs, err
}

func (s noting) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	reply, err := s.Store.Read(ctx, kind, ids...)
	if kind == driver.KindMutex {
		s.queues.shown(reply.Docs...)
	}
	return reply, err
}

// fairness is what a chain of documents is judged by.
type fairness struct {
	kind   mutexKind
	gone   map[string]string // claims whose tickets were taken out, and their sessions then
	queued int               // tickets that were there before they entered
	keeper *written          // the write that keeps it now; nil: it is not known
	known  map[int64]int64   // when it was known that a revision was written
	asked  map[int64]int64   // when the call was made that got a token
	bad    []string
}

// judgeQueue says what is unfair: a ticket before one that has not seen more, one that enters before another that may
// enter, one of a live session that lost its place. asked says when the call was made that got a token.
func judgeQueue(kind mutexKind, chain []*written, asked map[int64]int64) (queued int, bad []string) {
	f := fairness{kind: kind, gone: map[string]string{}, known: map[int64]int64{}, asked: asked}
	for _, w := range chain {
		f.known[w.doc.Rev] = w.known
	}
	for i := 1; i < len(chain); i++ {
		f.step(chain[i-1].doc, chain[i].doc)
		f.keeps(chain[i-1].doc, chain[i])
	}
	return f.queued, f.bad
}

func (f *fairness) wrong(before, after protocol.MutexDoc, format string, args ...any) {
	f.bad = append(f.bad, fmt.Sprintf("%s\n  before %+v\n  after  %+v", fmt.Sprintf(format, args...), before, after))
}

func (f *fairness) step(before, after protocol.MutexDoc) {
	var stayed []string // the old tickets that are still there, in the order that they had
	for _, t := range before.Queue {
		if ticketAt(after, t.Claim) >= 0 {
			stayed = append(stayed, t.Claim)
		} else if !holds(after, t.Claim) {
			f.gone[t.Claim] = t.Session
		}
	}
	behind := stayed
	for _, t := range after.Queue {
		switch at := slices.Index(behind, t.Claim); {
		case at == 0:
			behind = behind[1:]
		case at > 0 || len(behind) > 0 && before.Queue[ticketAt(before, behind[0])].Seen <= t.Seen:
			f.wrong(before, after, "the ticket %s is not in its place", t.Claim)
		}
		f.keptPlace(before, after, t.Claim, t.Session)
	}
	for _, h := range after.Holders {
		f.keptPlace(before, after, h.Claim, h.Session)
		if !holds(before, h.Claim) {
			f.enters(before, after, h, stayed)
		}
	}
	f.fits(before, after)
}

// keptPlace says so when a ticket that was taken out is there again, in the name of the same session: that lives, and
// its call waits.
func (f *fairness) keptPlace(before, after protocol.MutexDoc, claim, session string) {
	if was, gone := f.gone[claim]; gone && was == session {
		f.wrong(before, after, "the ticket %s had lost its place, and its session lives", claim)
	}
	delete(f.gone, claim)
}

// enters judges a new holder. What stayed before its ticket was passed over. Without a ticket it may have come before
// those that have seen more than it has.
func (f *fairness) enters(before, after protocol.MutexDoc, h protocol.MutexHolder, stayed []string) {
	at := ticketAt(before, h.Claim)
	if at >= 0 {
		f.queued++
	}
	passed := 0
	for _, claim := range stayed {
		of := ticketAt(before, claim)
		if at >= 0 && of > at || at < 0 && !f.madeAfter(h.Token, before.Queue[of].Seen) {
			continue
		}
		if passed++; f.kind == readersWriter && (!h.Shared || !before.Queue[of].Shared) {
			f.wrong(before, after, "%s entered over the ticket %s", h.Claim, claim)
		}
	}
	if limit := f.kind.limit(); f.kind != unfair && limit > 0 && len(after.Holders)+passed > limit && passed > 0 {
		f.wrong(before, after, "%s entered over %d tickets", h.Claim, passed)
	}
}

// madeAfter says whether the call that got a token was surely made after a revision was written: it saw no less.
func (f *fairness) madeAfter(token, rev int64) bool {
	return rev == 0 || f.known[rev] > 0 && f.asked[token] > f.known[rev]
}

// keeps says so when somebody enters a mutex that is kept, or when it is not kept any more although no one has entered.
// It is over by the store's clock, of which the claim that follows says what it was, or when as much time has passed.
func (f *fairness) keeps(before protocol.MutexDoc, w *written) {
	hold, after := before.Hold, w.doc
	if hold == after.Hold {
		return
	}
	claimed := after.Hold.UntilMs - after.Hold.ForMs
	passed := f.keeper == nil || time.Duration(w.at-f.keeper.at) >= time.Duration(hold.ForMs)*time.Millisecond
	over := hold == protocol.MutexHold{} || claimed >= hold.UntilMs || passed
	entered := slices.ContainsFunc(after.Holders, func(h protocol.MutexHolder) bool { return !holds(before, h.Claim) })
	switch {
	case entered && !over:
		f.wrong(before, after, "entered %v after it was kept", time.Duration(w.at-f.keeper.at))
	case !entered && !over && len(after.Holders) == 0 && after.Hold.UntilMs < hold.UntilMs:
		f.wrong(before, after, "it is not kept any more")
	}
	f.keeper = w
}

// fits says so when more hold it than may.
func (f *fairness) fits(before, after protocol.MutexDoc) {
	writers := 0
	for _, h := range after.Holders {
		if !h.Shared {
			writers++
		}
	}
	n := len(after.Holders)
	if limit := f.kind.limit(); limit > 0 && n > limit || limit == 0 && writers > 0 && n > 1 {
		f.wrong(before, after, "%d hold it", n)
	}
}

func ticketAt(d protocol.MutexDoc, claim string) int {
	return slices.IndexFunc(d.Queue, func(t protocol.MutexTicket) bool { return t.Claim == claim })
}

func holds(d protocol.MutexDoc, claim string) bool {
	return slices.ContainsFunc(d.Holders, func(h protocol.MutexHolder) bool { return h.Claim == claim })
}

package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

// Pauses before a round is tried again: they double, and any part of one may pass.
const (
	shortestPause = 2 * time.Millisecond
	longestPause  = 200 * time.Millisecond
)

// item is one document that is to be decided about.
type item struct {
	key
	judge   func(found ballot.Value, sent bool) (propose ballot.Value, changes bool)
	above   int64 // ballots have to be above this counter; 0: any
	docLock *docLock
	round   round
	sent    bool
	done    bool

	change  bool  // else it is a read, which repairs nothing
	foreign uint8 // a bit for each of the servers that have no record of it, and something else in its place
}

// over says whether a change takes the place of what is no record: so many servers have that, that none could be read
// by a majority.
func (it *item) over(servers int) bool {
	return it.change && servers-bits.OnesCount8(it.foreign) < ballot.Majority(servers)
}

// proposer has the servers decide about documents, one call of this process at a time for each.
type proposer struct {
	members  *members
	name     ballot.Proposer // of this store: no other one ever has it
	docLocks docLocks
}

// decide runs rounds until every item is decided, or ctx ends. Items must name different documents.
func (p *proposer) decide(ctx context.Context, items []*item) error {
	keys := make([]key, len(items))
	for i, it := range items {
		keys[i] = it.key
	}
	taken, leave, err := p.docLocks.lockAll(ctx, keys)
	if err != nil {
		return err
	}
	defer leave()
	for _, it := range items {
		it.docLock = taken[it.key]
		for _, at := range p.members.all { // else a creation would be refused first
			it.docLock.memory.Saw(acceptor{Floor: at.floor(it.kind)})
		}
		if it.above > 0 {
			it.docLock.memory.Forget()
			it.docLock.memory.Saw(acceptor{Floor: it.above})
		}
	}
	for try := 0; ; try++ {
		why := p.attempt(ctx, items, try)
		if why == nil {
			return nil
		}
		if !pause(ctx, try) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), why)
		}
	}
}

var errCollided = errors.New("other rounds were faster")

// attempt is one round for all items that are not decided. Nil: all are.
func (p *proposer) attempt(ctx context.Context, items []*item, try int) error {
	var left []*item
	for _, it := range items {
		if !it.done {
			it.round = it.docLock.memory.Begin(p.name, len(p.members.all))
			left = append(left, it)
		}
	}
	err := p.phase(ctx, left, ballot.Preparing, try)
	for _, it := range left {
		if it.round.Phase == ballot.Judging {
			v, changes := it.judge(it.round.Found.Value, it.sent)
			it.sent = it.sent || changes
			it.round.Propose(v)
		}
	}
	err = join(err, p.phase(ctx, left, ballot.Accepting, try))
	all := true
	for _, it := range left {
		it.docLock.memory.End(it.round)
		it.done = it.round.Phase == ballot.Chosen
		all = all && it.done
	}
	switch {
	case all:
		return nil
	case err == nil:
		return errCollided
	}
	return err
}

// phase asks all servers about the items that are in it, until each of them is through, all servers have answered, or
// patience is over. Answers that come later are dropped.
func (p *proposer) phase(ctx context.Context, items []*item, in ballot.Phase, try int) error {
	var asked []*item
	var requests []request
	for _, it := range items {
		r := it.round
		if r.Phase != in {
			continue
		}
		asked = append(asked, it)
		requests = append(requests, request{
			key: it.key, accept: in == ballot.Accepting, ballot: r.Ballot, next: r.Next, value: r.Value,
			over: it.over(len(p.members.all)),
		})
	}
	if len(asked) == 0 {
		return nil
	}
	answers := ask(ctx, p.members, func(ctx context.Context, at *server) ([]answer, error) {
		return at.execute(ctx, requests, p.members.nonce)
	})
	wait := newPatience(try)
	defer wait.stop()
	return gather(ctx, answers, wait, func(got answerOf[[]answer]) bool { return take(asked, got.server, got.value, in) })
}

// take hands a server's answers to the rounds. True: none is in this phase any more.
func take(asked []*item, server int, answers []answer, in ballot.Phase) bool {
	through := true
	for i, it := range asked {
		if i < len(answers) && answers[i].foreign {
			it.foreign |= 1 << server
		}
		if i < len(answers) && answers[i].given {
			a := answers[i]
			if in == ballot.Preparing {
				it.round.Promised(server, a.acceptor, a.ok)
			} else {
				it.round.Took(server, a.acceptor, a.ok)
			}
		}
		through = through && it.round.Phase != in
	}
	return through
}

// pause waits before the next try. False: ctx ends first.
func pause(ctx context.Context, try int) bool {
	longest := min(shortestPause<<min(try, 10), longestPause)
	return clock.Sleep(ctx, rand.N(longest)+1) == nil //nolint:gosec // no secret
}

// maxDocLocks is how many documents are remembered, beyond those that are being changed.
const maxDocLocks = 20_000

// docLock has one call of this process at a time change a document.
type docLock struct {
	slot   chan struct{}
	users  int
	memory memory
}

// docLocks are all of a process.
type docLocks struct {
	mu   sync.Mutex
	all  map[key]*docLock
	max  int   // how many are kept
	used int64 // the largest counter of those that were forgotten: no ballot up to it is used again
}

// lockAll takes the locks of some documents, all or none. The keys must differ. It waits for them in one order for
// all callers, so that no two wait for each other.
func (d *docLocks) lockAll(ctx context.Context, keys []key) (map[key]*docLock, func(), error) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id))
	})
	taken := make(map[key]*docLock, len(keys))
	var held []*docLock
	for _, k := range keys {
		taken[k] = d.use(k)
	}
	unlock := func() {
		for _, one := range held {
			<-one.slot
		}
		d.release(taken)
	}
	for _, k := range keys {
		select {
		case taken[k].slot <- struct{}{}:
			held = append(held, taken[k])
		case <-ctx.Done():
			unlock()
			return nil, nil, context.Cause(ctx)
		}
	}
	return taken, unlock, nil
}

func (d *docLocks) use(k key) *docLock {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.all[k]
	if one == nil {
		one = &docLock{slot: make(chan struct{}, 1)}
		one.memory.Saw(acceptor{Floor: d.used})
		d.all[k] = one
	}
	one.users++
	return one
}

// release gives locks back. Those that no one uses are forgotten when there are many: the next change asks for
// promises.
func (d *docLocks) release(taken map[key]*docLock) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range taken {
		one.users--
	}
	for k, one := range d.all {
		if len(d.all) <= d.max {
			return
		}
		if one.users == 0 {
			d.used = max(d.used, one.memory.Used())
			delete(d.all, k)
		}
	}
}

package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shardctl/shardctl/pkg/internal/sleep"
	"github.com/shardctl/shardctl/pkg/store/internal/quorum"
)

// Pauses before a round is tried again: they double, and any part of one may pass.
const (
	shortestPause = 2 * time.Millisecond
	longestPause  = 200 * time.Millisecond
)

// item is one document that is to be decided about.
type item struct {
	key
	judge func(found quorum.Value, sent bool) (propose quorum.Value, changes bool)
	above int64 // ballots have to be above this counter; 0: any
	desk  *desk
	round round
	sent  bool
	done  bool

	change  bool             // else it is a read, which repairs nothing
	foreign map[int]struct{} // the servers that have no record of it, and something else in its place
}

// over says whether a change takes the place of what is no record: so many servers have that, that none could be read
// by a majority.
func (it *item) over(servers int) bool {
	return it.change && servers-len(it.foreign) < quorum.Majority(servers)
}

// decide runs rounds until every item is decided, or ctx ends. Items must name different documents.
func (s *Store) decide(ctx context.Context, items []*item) error {
	keys := make([]key, len(items))
	for i, it := range items {
		keys[i] = it.key
	}
	taken, leave, err := s.desks.sit(ctx, keys)
	if err != nil {
		return err
	}
	defer leave()
	for _, it := range items {
		it.desk = taken[it.key]
		for _, at := range s.servers { // else a creation would be refused first
			it.desk.memory.Saw(acceptor{Floor: at.floor(it.kind)})
		}
		if it.above > 0 {
			it.desk.memory.Forget()
			it.desk.memory.Saw(acceptor{Floor: it.above})
		}
	}
	for try := 0; ; try++ {
		why := s.attempt(ctx, items, try)
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
func (s *Store) attempt(ctx context.Context, items []*item, try int) error {
	var left []*item
	for _, it := range items {
		if !it.done {
			it.round = it.desk.memory.Begin(s.name, len(s.servers))
			left = append(left, it)
		}
	}
	err := s.phase(ctx, left, quorum.Preparing, try)
	for _, it := range left {
		if it.round.Phase == quorum.Judging {
			v, changes := it.judge(it.round.Found.Value, it.sent)
			it.sent = it.sent || changes
			it.round.Propose(v)
		}
	}
	err = join(err, s.phase(ctx, left, quorum.Accepting, try))
	all := true
	for _, it := range left {
		it.desk.memory.End(it.round)
		it.done = it.round.Phase == quorum.Chosen
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
func (s *Store) phase(ctx context.Context, items []*item, in quorum.Phase, try int) error {
	var asked []*item
	var requests []request
	for _, it := range items {
		r := it.round
		if r.Phase != in {
			continue
		}
		asked = append(asked, it)
		requests = append(requests, request{
			key: it.key, accept: in == quorum.Accepting, ballot: r.Ballot, next: r.Next, value: r.Value,
			over: it.over(len(s.servers)),
		})
	}
	if len(asked) == 0 {
		return nil
	}
	answers := ask(ctx, s, func(ctx context.Context, at *server) ([]answer, error) {
		return at.execute(ctx, requests, s.nonce)
	})
	wait := newPatience(try)
	defer wait.stop()
	return gather(ctx, answers, wait, func(got said[[]answer]) bool { return take(asked, got.server, got.value, in) })
}

// take hands a server's answers to the rounds. True: none is in this phase any more.
func take(asked []*item, server int, answers []answer, in quorum.Phase) bool {
	through := true
	for i, it := range asked {
		if i < len(answers) && answers[i].foreign {
			if it.foreign == nil {
				it.foreign = map[int]struct{}{}
			}
			it.foreign[server] = struct{}{}
		}
		if i < len(answers) && answers[i].given {
			a := answers[i]
			if in == quorum.Preparing {
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
	return sleep.For(ctx, rand.N(longest)+1) == nil //nolint:gosec // no secret
}

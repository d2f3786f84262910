package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/quorum"
)

// count has each server count for itself. An increment is applied when a majority has counted it, so its counter rises
// by as many as did. of are the indexes of the increments among changes.
func (s *Store) count(ctx context.Context, changes []store.Change, of []int, outs []store.Outcome) {
	own := make([]store.Change, len(of))
	for j, i := range of {
		own[j] = store.Change{Op: store.Increment, Doc: changes[i].Doc}
		own[j].Doc.ID, own[j].Doc.Body = counterID(changes[i].Doc.ID), nil
	}
	answers := ask(ctx, s, func(ctx context.Context, at *server) ([]store.Outcome, error) {
		client, _, err := at.serving()
		if err != nil {
			return nil, err
		}
		outs, err := client.Apply(ctx, own...)
		if err == nil { // an empty disk counts as well
			_, err = at.look(ctx, store.KindGroup, nil)
		}
		return outs, err
	})
	acknowledged := make([]int, len(of))
	var refused []error
	need := quorum.Majority(len(s.servers))
	err := gather(ctx, answers, nil, func(got said[[]store.Outcome]) bool {
		if got.err != nil {
			return false
		}
		for j, out := range got.value {
			if out.Status == store.Applied {
				acknowledged[j]++
			} else {
				refused = append(refused, fmt.Errorf("server %d: %w", got.server+1, join(out.Err, errNotCounted)))
			}
		}
		return slices.Min(acknowledged) >= need
	})
	err = join(append(refused, err)...)
	for j, i := range of {
		outs[i] = store.Outcome{Status: store.Applied}
		if acknowledged[j] < need {
			outs[i] = store.AllUnknown(1, err)[0]
		}
	}
}

var errNotCounted = errors.New("not counted")

// sum takes what a server shows of a counter.
func (s *Store) sum(group string, server int, n quorum.Count) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counters[group]
	if c == nil {
		c = &quorum.Counter{}
		s.counters[group] = c
	}
	c.Shown(server, n)
}

// counted adds the counter of a group to its document; nil: there is neither.
func (s *Store) counted(group string, d *store.Doc) *store.Doc {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counters[group]
	if c == nil {
		return d
	}
	n := c.Sum()
	sum := store.Doc{Kind: store.KindGroup, ID: group}
	if d != nil {
		sum = *d
	}
	sum.Count += n.Count
	sum.Rev = max(sum.Rev+n.Count, n.Rev)
	sum.WriterID = store.WriterID{}
	return &sum
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shardctl/shardctl/pkg/store"
)

// Apply implements [store.Store].
func (s *Store) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	if err := store.ValidateChanges(changes); err != nil {
		return nil, err
	}
	// A call may outlast its caller: it must not see what the caller does with its slices then.
	changes = slices.Clone(changes)
	for i := range changes {
		changes[i].Doc.Body = slices.Clone(changes[i].Doc.Body)
	}
	parts := s.traits.divide(changes)
	if len(parts) == 1 { // a heartbeat, or a claim
		return s.apply(ctx, changes), nil
	}
	outcomes := make([]store.Outcome, len(changes))
	var sending sync.WaitGroup
	free := make(chan struct{}, max(1, s.traits.AtOnce))
	for _, p := range parts {
		free <- struct{}{}
		sending.Go(func() {
			defer func() { <-free }()
			copy(outcomes[p.from:p.to], s.apply(ctx, changes[p.from:p.to]))
		})
	}
	sending.Wait()
	return outcomes, nil
}

// part is the changes of one CAS: the first of them, and the one after the last.
type part struct{ from, to int }

// divide makes parts of at most MaxChanges and MaxBytes.
func (t Traits) divide(changes []store.Change) (all []part) {
	from, size := 0, 0
	for i, c := range changes {
		bytes := len(c.Doc.Body)
		if i > from && (i-from == t.MaxChanges || t.MaxBytes > 0 && size+bytes > t.MaxBytes) {
			all = append(all, part{from, i})
			from, size = i, 0
		}
		size += bytes
	}
	if from < len(changes) {
		all = append(all, part{from, len(changes)})
	}
	return all
}

// apply performs the changes of one part.
func (s *Store) apply(ctx context.Context, changes []store.Change) []store.Outcome {
	outcomes, err := call(ctx, s, "write", func(ctx context.Context) ([]store.Outcome, error) {
		return s.cas(ctx, changes)
	})
	if err == nil {
		return outcomes
	}
	if outcomes == nil { // the driver has not returned
		outcomes = make([]store.Outcome, len(changes))
	}
	for i := range outcomes {
		if outcomes[i].Status == store.Unknown && outcomes[i].Err == nil {
			outcomes[i] = Unknown(err)
		}
	}
	return outcomes
}

// Unknown is the outcome of a change that was sent, or was to be sent, when err happened. It says [store.ErrUnavailable]
// where the database did not refuse it for good.
func Unknown(err error) store.Outcome {
	if !errors.Is(err, store.ErrInvalid) && !errors.Is(err, store.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return store.Outcome{Status: store.Unknown, Err: err}
}

// cas sends changes until each has been written or refused. With an error those without an outcome are Unknown.
func (s *Store) cas(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	outcomes := make([]store.Outcome, len(changes))
	left := make([]int, len(changes))
	for i := range left {
		left[i] = i
	}
	var found []int // written before, by a call whose answer was lost
	for attempt := 0; len(left) > 0; attempt++ {
		sent := make([]store.Change, len(left))
		for i, at := range left {
			sent[i] = changes[at]
		}
		results, err := s.backend.CAS(ctx, sent, attempt)
		var again []int
		for i, r := range results {
			out, done := s.judge(sent[i], r)
			if !done {
				again = append(again, left[i])
				continue
			}
			if out.Status == store.Applied && !r.Written {
				found = append(found, left[i])
			}
			outcomes[left[i]] = out
		}
		if err != nil {
			return outcomes, err
		}
		left = again
	}
	return outcomes, s.confirm(ctx, changes, outcomes, found)
}

// confirm makes sure of writes that were found, where a database shows those that may not be durable yet.
func (s *Store) confirm(ctx context.Context, changes []store.Change, outcomes []store.Outcome, found []int) error {
	b, ok := s.backend.(Confirmer)
	if !ok || len(found) == 0 {
		return nil
	}
	err := b.Confirm(ctx, changes)
	if err != nil {
		for _, at := range found {
			outcomes[at] = store.Outcome{}
		}
	}
	return err
}

// judge says how a change ended. done is false where another write came between: its condition holds on what was found.
func (s *Store) judge(c store.Change, r Result) (out store.Outcome, done bool) {
	if r.Malformed == nil && r.Found != nil {
		r.Malformed = store.CheckFound(*r.Found)
	}
	if r.Malformed != nil {
		s.found.Report(c.Doc.Kind, c.Doc.ID, r.Malformed)
		r.Found = nil
	}
	switch {
	case r.Written:
		return store.Outcome{Status: store.Applied}, true
	case r.Outcome != nil:
		return *r.Outcome, true
	}
	out, holds := store.Judge(c, r.Found)
	return out, !holds
}

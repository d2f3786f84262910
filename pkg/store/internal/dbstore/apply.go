package dbstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Apply implements [driver.Store].
func (s *Store) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	if err := driver.ValidateChanges(changes); err != nil {
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
	outcomes := make([]driver.Outcome, len(changes))
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
func (t Traits) divide(changes []driver.Change) (all []part) {
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
func (s *Store) apply(ctx context.Context, changes []driver.Change) []driver.Outcome {
	outcomes, err := call(ctx, s, "write", func(ctx context.Context) ([]driver.Outcome, error) {
		return s.cas(ctx, changes)
	})
	for i, out := range outcomes {
		s.fail(out.Err)
		outcomes[i].Err = s.waits.explain(out.Err)
	}
	if err == nil {
		return outcomes
	}
	if outcomes == nil { // the driver has not returned
		outcomes = make([]driver.Outcome, len(changes))
	}
	unknown := driver.AllUnknown(1, err)[0]
	for i := range outcomes {
		if outcomes[i].Status == driver.Unknown && outcomes[i].Err == nil {
			outcomes[i] = unknown
		}
	}
	return outcomes
}

// cas sends changes until each has been written or refused. With an error those without an outcome are Unknown.
func (s *Store) cas(ctx context.Context, changes []driver.Change) ([]driver.Outcome, error) {
	outcomes := make([]driver.Outcome, len(changes))
	left := make([]int, len(changes))
	for i := range left {
		left[i] = i
	}
	var found []int // written before, by a call whose answer was lost
	for attempt := 0; len(left) > 0; attempt++ {
		sent := make([]driver.Change, len(left))
		for i, at := range left {
			sent[i] = changes[at]
		}
		results, err := s.backend.CAS(ctx, sent, attempt)
		s.readBack(ctx, sent, results)
		var again []int
		for i, r := range results {
			out, done := s.judge(sent[i], r)
			if !done {
				again = append(again, left[i])
				continue
			}
			if out.Status == driver.Applied && !r.Written {
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
func (s *Store) confirm(ctx context.Context, changes []driver.Change, outcomes []driver.Outcome, found []int) error {
	b, ok := s.backend.(Confirmer)
	if !ok || len(found) == 0 {
		return nil
	}
	err := b.Confirm(ctx, changes)
	if err != nil {
		for _, at := range found {
			outcomes[at] = driver.Outcome{}
		}
	}
	return err
}

// errMayArrive says that a write whose answer was lost is not there, although its condition holds.
var errMayArrive = errors.New("the write is not there, and may yet arrive")

// readBack reads what backends have not: what stands in the way of a change, and what became of one whose answer was
// lost. That one is not sent again: the first may yet arrive, and only the caller knows whether a second one does harm.
func (s *Store) readBack(ctx context.Context, changes []driver.Change, results []Result) {
	unread := map[driver.Kind][]int{}
	for i, r := range results {
		c := changes[i]
		final := r.Err != nil && (c.Op == driver.Increment || ctx.Err() != nil ||
			errors.Is(s.backend.Translate("write", r.Err), driver.ErrInvalid))
		if r.Unread && !r.Written && !final {
			unread[c.Doc.Kind] = append(unread[c.Doc.Kind], i)
		}
	}
	for kind, places := range unread {
		ids := make([]string, len(places))
		for n, i := range places {
			ids[n] = changes[i].Doc.ID
		}
		slices.Sort(ids)
		page, err := s.backend.Get(ctx, kind, ids)
		for _, i := range places {
			r := &results[i]
			switch {
			case err != nil && r.Err != nil:
				r.Err = fmt.Errorf("%w; then read back: %w", r.Err, err)
				continue
			case err != nil:
				r.Err = fmt.Errorf("read back: %w", err)
				continue
			}
			r.Found, r.Malformed = page.find(changes[i].Doc.ID)
			if r.Err == nil {
				continue
			}
			if _, holds := driver.Judge(changes[i], r.Found); holds {
				r.Err = fmt.Errorf("%w: %w", errMayArrive, r.Err)
			} else {
				r.Err = nil
			}
		}
	}
}

// find is what a page has of an id: a document, why what is there is none, or neither.
func (p Page) find(id string) (*driver.Doc, error) {
	if at := slices.IndexFunc(p.Docs, func(d driver.Doc) bool { return d.ID == id }); at >= 0 {
		return usable(&p.Docs[at], nil)
	}
	if at := slices.IndexFunc(p.Unreadable, func(u driver.Unreadable) bool { return u.ID == id }); at >= 0 {
		return nil, p.Unreadable[at].Err
	}
	return nil, nil
}

// usable is a document that was found, or why it is none.
func usable(d *driver.Doc, malformed error) (*driver.Doc, error) {
	if malformed == nil && d != nil {
		malformed = driver.CheckFound(*d)
	}
	if malformed != nil {
		return nil, malformed
	}
	return d, nil
}

// judge says how a change ended. done is false where another write came between: its condition holds on what was found.
func (s *Store) judge(c driver.Change, r Result) (out driver.Outcome, done bool) {
	found, malformed := usable(r.Found, r.Malformed)
	if malformed != nil {
		s.found.Report(c.Doc.Kind, c.Doc.ID, malformed)
	}
	holds := false
	switch {
	case r.Written:
		out.Status = driver.Applied
	case r.Err != nil:
		out = driver.AllUnknown(1, s.backend.Translate("write "+string(c.Doc.Kind), r.Err))[0]
	case r.Refused:
		out = driver.Outcome{Status: driver.Refused, Doc: found}
	default:
		out, holds = driver.Judge(c, found)
	}
	out.Lineage = r.Lineage
	return out, !holds
}

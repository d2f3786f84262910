package storecopy

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// wantNothing refuses a target that holds anything.
func (m *mover) wantNothing(ctx context.Context) error {
	for _, kind := range driver.Kinds() {
		for docs, err := range pages(ctx, m.To, kind) {
			if err != nil {
				return err
			}
			if len(docs) > 0 {
				return fmt.Errorf(
					"%w: %s is not empty: it holds %s %.80q: name another database or cluster", ErrRefused, m.To.Name,
					kind, docs[0].ID,
				)
			}
		}
	}
	return nil
}

// wantReadable refuses a source with documents that cannot be read, and names each of them: what may be missing at the
// target is for an operator to decide. It refuses a source without documents as well, unless a copy goes on. Its URI or
// its cluster is probably wrong then.
func (m *mover) wantReadable(ctx context.Context) error {
	named := map[string]bool{}
	var all []driver.Unreadable
	count := 0
	for _, kind := range driver.Kinds() {
		for docs, err := range pages(ctx, m.From, kind) {
			bad, some := errors.AsType[*unreadableError](err)
			if err != nil && !some {
				return err
			}
			count += len(docs)
			if !some {
				continue
			}
			for _, u := range bad.all {
				text := described(u)
				if !named[text] { // two pages may name it
					named[text], all = true, append(all, u)
					m.step("cannot read %s", text)
				}
			}
		}
	}
	switch {
	case len(all) > 0:
		return &unreadableError{m.From.Name, all}
	case count == 0 && !m.report.Resumed:
		return fmt.Errorf("%w: %s holds no documents of this cluster: check its name", ErrRefused, m.From.Name)
	}
	return nil
}

// copyAll copies every kind. Counters come after locks and mutexes, whose revisions they carry.
func (m *mover) copyAll(ctx context.Context) error {
	floor, err := listed(ctx, m.From, driver.KindGroup, driver.Query{Limit: 1, NoBody: true})
	if err != nil {
		return err
	}
	if floor.Floor <= driver.MaxMark {
		m.floor = floor.Floor
	}
	kinds := slices.DeleteFunc(driver.Kinds(), func(k driver.Kind) bool { return k == driver.KindGroup })
	for _, kind := range append(kinds, driver.KindGroup) {
		for docs, err := range pages(ctx, m.From, kind) {
			if err == nil {
				err = m.copyDocs(ctx, docs)
			}
			if err != nil {
				return fmt.Errorf("copy %s: %w", kind.Info().Plural, err)
			}
			m.report.Documents[kind.Info().Plural] += len(docs)
		}
		m.step("%d %s copied", m.report.Documents[kind.Info().Plural], kind.Info().Plural)
	}
	return m.missingCounters(ctx)
}

// copyDocs writes one page.
func (m *mover) copyDocs(ctx context.Context, docs []driver.Doc) error {
	changes := make([]driver.Change, len(docs))
	for i, d := range docs {
		m.note(d)
		changes[i] = driver.Change{Doc: m.prepared(d)}
	}
	if len(changes) == 0 {
		return nil
	}
	outs, err := applied(ctx, m.To, changes)
	if err != nil {
		return refusedDocument(err)
	}
	for i, out := range outs {
		if out.Status != driver.Applied {
			if err := m.settle(ctx, changes[i], out.Doc); err != nil {
				return err
			}
		}
	}
	return nil
}

func refusedDocument(err error) error {
	if errors.Is(err, driver.ErrMalformed) || errors.Is(err, driver.ErrTooLarge) {
		return fmt.Errorf("%w: somebody edited it: repair or remove it at the source, and copy again", err)
	}
	return err
}

// note remembers what counters have to be above.
func (m *mover) note(d driver.Doc) {
	if d.Kind == driver.KindGroup {
		m.counters[d.ID] = true
	}
	if d.Rev > driver.MaxMark {
		return // written manually: no time
	}
	m.highest = max(m.highest, d.Rev)
	if d.Kind == driver.KindLock || d.Kind == driver.KindMutex {
		counter := counterOf(d.ID)
		m.tokens[counter] = max(m.tokens[counter], d.Rev)
	}
}

// prepared is a document as it is written to the target: as it is, but for two things. A counter is never below the
// locks that it counts, nor below the source's floor. A document without a writer gets one, since stores insist.
func (m *mover) prepared(d driver.Doc) driver.Doc {
	if d.Kind == driver.KindGroup {
		d.Rev = max(d.Rev, m.tokens[d.ID], m.floor)
	}
	if d.WriterID.Session == "" {
		d.WriterID = driver.WriterID{Session: m.report.ID, Seq: d.Rev}
	}
	return d
}

// counterOf is the counter of a lock's or a mutex's group.
func counterOf(key string) string { return record.CounterOf(record.Key(key)) }

// settle looks at a document that is at the target already. An earlier try of this copy has left it, or a replica that
// waits there has raised a counter.
func (m *mover) settle(ctx context.Context, c driver.Change, found *driver.Doc) error {
	d := c.Doc
	switch {
	case found == nil:
		return fmt.Errorf("%s %.80q: it came and went at the target while it was copied: copy again", d.Kind, d.ID)
	case d.Kind == driver.KindGroup && found.Rev >= d.Rev:
		return nil
	case d.Kind != driver.KindGroup && found.Rev >= d.Rev:
		return fmt.Errorf(
			"%w: %s %.80q is at revision %d at the target and at %d at the source: somebody writes to the target",
			ErrRefused, d.Kind, d.ID, found.Rev, d.Rev,
		)
	}
	out, err := applyOne(ctx, m.To, driver.Change{IfRev: found.Rev, Doc: d})
	if err == nil && out.Status != driver.Applied {
		err = fmt.Errorf("%w: %s %.80q changes at the target while it is copied", ErrRefused, d.Kind, d.ID)
	}
	return err
}

// missingCounters makes those that groups of locks have lost: a lock that is deleted later must not begin below.
func (m *mover) missingCounters(ctx context.Context) error {
	for counter, rev := range m.tokens {
		if m.counters[counter] {
			continue
		}
		d := driver.Doc{Kind: driver.KindGroup, ID: counter, Rev: rev}
		if _, err := applyOne(ctx, m.To, driver.Change{Op: driver.Increment, Doc: d}); err != nil {
			return fmt.Errorf("make counter %.80q: %w", counter, err)
		}
	}
	return nil
}

// pages lists all documents of a kind in order of their IDs, without the mark of a move. One that cannot be read is an
// error: who goes through all of them must not go on without it.
func pages(ctx context.Context, from Side, kind driver.Kind) iter.Seq2[[]driver.Doc, error] {
	return func(yield func([]driver.Doc, error) bool) {
		q := driver.Query{Limit: driver.MaxBatch}
		for {
			found, err := listed(ctx, from, kind, q)
			if err != nil {
				yield(nil, fmt.Errorf("list the %s of %s: %w", kind.Info().Plural, from.Name, err))
				return
			}
			if len(found.Unreadable) > 0 && !yield(nil, &unreadableError{from.Name, found.Unreadable}) {
				return
			}
			full, docs := len(found.Docs) == q.Limit, found.Docs
			if full {
				q = q.After(docs[len(docs)-1].ID)
			}
			if !yield(withoutMark(docs), nil) || !full {
				return
			}
		}
	}
}

// unreadableError refuses a store with documents that cannot be read. It wraps [ErrRefused].
type unreadableError struct {
	store string
	all   []driver.Unreadable
}

// Error implements error. It names one of them: there may be many.
func (e *unreadableError) Error() string {
	return fmt.Sprintf(
		"%v: %s holds %d documents that cannot be read, such as %s: somebody edited them: repair or remove them, and "+
			"copy again", ErrRefused, e.store, len(e.all), described(e.all[0]),
	)
}

func (e *unreadableError) Unwrap() error { return ErrRefused }

func described(u driver.Unreadable) string { return fmt.Sprintf("%s %.80q (%v)", u.Kind, u.ID, u.Err) }

func withoutMark(docs []driver.Doc) []driver.Doc {
	for i, d := range docs {
		if d.Kind == driver.KindValue && d.ID == record.MoveID {
			return append(docs[:i:i], docs[i+1:]...)
		}
	}
	return docs
}

// listed lists, again while the store is away, for as long as patience goes.
func listed(ctx context.Context, from Side, kind driver.Kind, q driver.Query) (found driver.Reply, err error) {
	err = patiently(ctx, func(ctx context.Context) error {
		found, err = from.List(ctx, kind, q)
		return err
	})
	return found, err
}

// applyOne sends one change until its outcome is known, for as long as patience goes.
func applyOne(ctx context.Context, to Side, c driver.Change) (driver.Outcome, error) {
	outs, err := applied(ctx, to, []driver.Change{c})
	if err != nil {
		return driver.Outcome{}, err
	}
	return outs[0], nil
}

// applied sends changes until all their outcomes are known, for as long as patience goes.
func applied(ctx context.Context, to Side, changes []driver.Change) ([]driver.Outcome, error) {
	outs := make([]driver.Outcome, len(changes))
	open := make([]int, len(changes))
	for i := range open {
		open[i] = i
	}
	err := patiently(ctx, func(ctx context.Context) error {
		send := make([]driver.Change, len(open))
		for i, at := range open {
			send[i] = changes[at]
		}
		answers, err := to.Apply(ctx, send...)
		if err != nil {
			return err
		}
		var left []int
		for i, at := range open {
			if outs[at] = answers[i]; answers[i].Status == driver.Unknown {
				left, err = append(left, at), answers[i].Err
			}
		}
		open = left
		return err
	})
	return outs, err
}

const (
	perTry = 20 * time.Second // one call
	pause  = 200 * time.Millisecond
)

// patiently calls f until it fails otherwise than because the store is away, or patience is over.
func patiently(ctx context.Context, f func(context.Context) error) error {
	deadline := time.Now().Add(patience)
	for {
		try, cancel := context.WithTimeout(ctx, perTry)
		err := f(try)
		cancel()
		if err == nil || !errors.Is(err, store.ErrUnavailable) || time.Now().After(deadline) {
			return err
		}
		if ended := clock.Sleep(ctx, pause); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

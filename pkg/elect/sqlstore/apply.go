package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// logKept is how many lines of the log of notifications stay. A watcher that is further behind gets a Resync.
const logKept = 2000

// Apply implements [store.Store]. Up to [store.MaxBatch] changes are one transaction; longer lists are several.
func (s *Store) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	if err := store.ValidateChanges(changes); err != nil {
		return nil, err
	}
	outcomes := make([]store.Outcome, 0, len(changes))
	for batch := range slices.Chunk(changes, store.MaxBatch) {
		// The call may outlast its caller: it must not see what the caller does with its slices then.
		batch = slices.Clone(batch)
		for i := range batch {
			batch[i].Doc.Body = slices.Clone(batch[i].Doc.Body)
		}
		got, err := await(
			ctx, s, func(ctx context.Context) ([]store.Outcome, error) { return s.applyBatch(ctx, batch) },
		)
		if err != nil {
			unknown := store.Outcome{Status: store.Unknown, Err: s.translate("write", err)}
			got = slices.Repeat([]store.Outcome{unknown}, len(batch))
		}
		outcomes = append(outcomes, got...)
	}
	return outcomes, nil
}

func (s *Store) applyBatch(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	var w *writer
	select {
	case w = <-s.writer:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { s.writer <- w }()
	outcomes := make([]store.Outcome, len(changes))
	err := w.transaction(ctx, func(ctx context.Context) error {
		for i, c := range changes {
			var err error
			if outcomes[i], err = s.applyOne(ctx, w, c); err != nil {
				return err
			}
		}
		return nil
	})
	return outcomes, err
}

func (s *Store) applyOne(ctx context.Context, w *writer, c store.Change) (store.Outcome, error) {
	st := s.sql.kinds[c.Doc.Kind]
	old, err := w.get(ctx, st.get, c.Doc.Kind, c.Doc.ID)
	if err != nil {
		return store.Outcome{}, err
	}
	if old != nil && !s.found.usable(*old) {
		old = nil // edited out of band: a creation takes its place
	}
	out, write := store.Judge(c, old)
	if !write {
		return out, nil
	}
	d := &c.Doc
	switch c.Op {
	case store.Delete:
		d = nil
		err = w.exec(ctx, st.remove, c.Doc.ID)
	case store.Increment:
		d = s.incremented(c.Doc, old)
		err = w.exec(ctx, st.put, row(*d)...)
	case store.Put:
		err = w.exec(ctx, st.put, row(*d)...)
	}
	if err == nil && store.Notable(old, d) {
		err = s.note(ctx, w, c.Doc, d)
	}
	return out, err
}

// incremented is the counter after old; nil: the first.
func (s *Store) incremented(named store.Doc, old *store.Doc) *store.Doc {
	d := store.Doc{Kind: named.Kind, ID: named.ID}
	if old != nil {
		d = *old
	}
	if d.Rev == store.MaxRev || d.Count < 0 || d.Count >= store.MaxRev {
		now := s.dialect.Now() // edited out of band; from the time on it is no number that anybody knows it at
		d.Rev, d.Count = now, now
	}
	d.Rev, d.Count, d.WriterID = max(d.Rev+1, named.Rev), d.Count+1, store.WriterID{}
	return &d
}

// note writes a line of the log, in the transaction of the change that it notes.
func (s *Store) note(ctx context.Context, w *writer, named store.Doc, d *store.Doc) error {
	group, next := named.Group, ""
	if d != nil {
		group, next = d.Group, d.Next
	}
	st, err := w.prepare(ctx, s.sql.log.add)
	if err != nil {
		return err
	}
	res, err := st.ExecContext(ctx, string(named.Kind), named.ID, group, next)
	if err != nil {
		return err
	}
	seq, err := res.LastInsertId()
	if err != nil {
		return err
	}
	if seq%(logKept/10) != 0 {
		return nil
	}
	return w.exec(ctx, s.sql.log.drop, seq-logKept)
}

func (w *writer) get(ctx context.Context, text string, kind store.Kind, id string) (*store.Doc, error) {
	st, err := w.prepare(ctx, text)
	if err != nil {
		return nil, err
	}
	d, err := scan(kind, st.QueryRowContext(ctx, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil // absent
	}
	if err != nil {
		return nil, err
	}
	return &d, nil
}

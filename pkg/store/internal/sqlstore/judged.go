package sqlstore

import (
	"context"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// cas reads, judges and writes. No one else writes between.
func (w *writer) cas(ctx context.Context, c store.Change) (engine.Result, error) {
	st := w.file.sql.kinds[c.Doc.Kind]
	var old *store.Doc
	if err := w.run(ctx, w.file.get(c.Doc.Kind, c.Doc.ID, &old)); err != nil {
		return engine.Result{}, err
	}
	var malformed error
	if old != nil {
		if malformed = store.CheckFound(*old); malformed != nil {
			old = nil
		}
	}
	if _, holds := store.Judge(c, old); !holds {
		return engine.Result{Found: old, Malformed: malformed}, nil
	}
	var err error
	d := &c.Doc
	switch c.Op {
	case store.Delete:
		d = nil
		err = w.exec(ctx, st.remove, c.Doc.ID)
	case store.Increment:
		raised := engine.Incremented(c.Doc, old, w.file.now())
		d = &raised
		err = w.exec(ctx, st.put, w.file.row(*d)...)
	case store.Put:
		err = w.exec(ctx, st.put, w.file.row(*d)...)
	}
	if err == nil && store.Notable(old, d) {
		err = w.note(ctx, c.Doc, d)
	}
	return engine.Result{Written: true, Malformed: malformed}, err
}

// note writes a line of the log, in the transaction of the change that it notes.
func (w *writer) note(ctx context.Context, named store.Doc, d *store.Doc) error {
	group, next := named.Group, ""
	if d != nil {
		group, next = d.Group, d.Next
	}
	st, err := w.prepare(ctx, w.file.sql.log.add)
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
	return w.exec(ctx, w.file.sql.log.drop, seq-logKept)
}

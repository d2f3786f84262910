package zookeeper

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// dated adds what every reply says.
func (a *access) dated(p engine.Page) engine.Page {
	p.Now, p.Floor = a.clock.now(time.Now()), a.clock.floor()
	return p
}

// reader reads documents by their IDs.
type reader struct {
	*access
	barrier *barrier
}

// read is linearizable. The order of answers is kept within a course only, so it begins again when that has changed.
func (r *reader) read(ctx context.Context, kind store.Kind, ids []string) (engine.Page, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == "" })
	for {
		course, err := r.barrier.pass(ctx)
		if err != nil {
			return engine.Page{}, err
		}
		docs, malformed := make([]*store.Doc, len(ids)), make([]error, len(ids))
		errs := make([]error, len(ids), len(ids)+1)
		each(len(ids), func(i int) { docs[i], malformed[i], errs[i] = r.look(ctx, kind, ids[i]) })
		err, same := firstOf(append(errs, r.learnBase(ctx))), r.client.course.Load() == course
		switch {
		case ctx.Err() != nil:
			return engine.Page{}, errors.Join(context.Cause(ctx), err)
		case !same:
			continue
		case err != nil:
			return engine.Page{}, err
		}
		var all engine.Page
		for i := range ids {
			if docs[i] != nil {
				all.Docs = append(all.Docs, *docs[i])
			}
			if malformed[i] != nil {
				all.Unreadable = append(all.Unreadable, store.Unreadable{Kind: kind, ID: ids[i], Err: malformed[i]})
			}
		}
		return all, nil
	}
}

// look reads one document from the server at hand, or why what is there cannot be read. Both are nil where there is
// none.
func (a *access) look(ctx context.Context, kind store.Kind, id string) (d *store.Doc, malformed, err error) {
	f, err := a.get(ctx, a.place(kind, id).document)
	if err != nil {
		return nil, nil, err
	}
	d, malformed = decode(kind, id, f)
	return d, malformed, nil
}

package zkstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// reply adds what every reply says.
func (a *access) reply(r store.Reply) store.Reply {
	r.Now, r.Floor = a.clock.now(time.Now()), a.clock.floor()
	return r
}

// reader reads documents by their IDs.
type reader struct {
	*access
	barrier *barrier
}

// read is linearizable. The order of answers is kept within a course only, so it begins again when that has changed.
func (r *reader) read(ctx context.Context, kind store.Kind, ids []string) ([]store.Doc, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	for {
		course, err := r.barrier.pass(ctx)
		if err != nil {
			return nil, err
		}
		docs := make([]*store.Doc, len(ids))
		errs := make([]error, len(ids), len(ids)+1)
		each(len(ids), func(i int) { docs[i], errs[i] = r.look(ctx, kind, ids[i]) })
		err, same := firstOf(append(errs, r.learnBase(ctx))), r.client.course.Load() == course
		switch {
		case ctx.Err() != nil:
			return nil, errors.Join(context.Cause(ctx), err)
		case !same:
			continue
		case err != nil:
			return nil, err
		}
		var all []store.Doc
		for _, d := range docs {
			if d != nil {
				all = append(all, *d)
			}
		}
		return all, nil
	}
}

// look reads one document from the server at hand.
func (r *reader) look(ctx context.Context, kind store.Kind, id string) (*store.Doc, error) {
	f, err := r.get(ctx, r.place(kind, id).document)
	if err != nil {
		return nil, err
	}
	return r.document(kind, id, f), nil
}

package zookeeper

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
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
func (r *reader) read(ctx context.Context, kind store.Kind, ids []string) (store.Reply, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	for {
		course, err := r.barrier.pass(ctx)
		if err != nil {
			return store.Reply{}, err
		}
		docs, unreadable := make([]*store.Doc, len(ids)), make([]*store.Unreadable, len(ids))
		errs := make([]error, len(ids), len(ids)+1)
		each(len(ids), func(i int) { docs[i], unreadable[i], errs[i] = r.look(ctx, kind, ids[i]) })
		err, same := firstOf(append(errs, r.learnBase(ctx))), r.client.course.Load() == course
		switch {
		case ctx.Err() != nil:
			return store.Reply{}, errors.Join(context.Cause(ctx), err)
		case !same:
			continue
		case err != nil:
			return store.Reply{}, err
		}
		var all store.Reply
		for i := range ids {
			if docs[i] != nil {
				all.Docs = append(all.Docs, *docs[i])
			}
			if unreadable[i] != nil {
				all.Unreadable = append(all.Unreadable, *unreadable[i])
			}
		}
		return all, nil
	}
}

// look reads one document from the server at hand, or what is there and cannot be read. Both are nil where there is
// none.
func (a *access) look(ctx context.Context, kind store.Kind, id string) (*store.Doc, *store.Unreadable, error) {
	f, err := a.get(ctx, a.place(kind, id).document)
	if err != nil {
		return nil, nil, err
	}
	d, unreadable := a.decode(kind, id, f)
	return d, unreadable, nil
}

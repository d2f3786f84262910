package quorum

import (
	"context"
	"slices"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/quorum"
)

// looks is how often documents are looked at before a round decides about those on which no majority agrees.
const looks = 3

// view is one read: what a majority shows of documents of one kind, with their times and floors.
type view struct {
	store *Store
	kind  store.Kind
	found map[string]quorum.Value
	sums  map[string]quorum.Count // of counters
	times []int64
	floor int64

	foreign    map[string]error // why some server says nothing of a document
	unreadable []store.Unreadable
}

func (s *Store) view(kind store.Kind) *view {
	return &view{
		store: s, kind: kind, found: map[string]quorum.Value{}, sums: map[string]quorum.Count{},
		foreign: map[string]error{},
	}
}

// read finds out about these ids. It never asks for promises while servers agree. With no ids it asks for the time.
func (v *view) read(ctx context.Context, ids []string) error {
	left := ids
	for try := 0; ; try++ {
		var err error
		left, err = v.look(ctx, left, try)
		switch {
		case err == nil && len(left) == 0:
			v.store.now(v.times)
			return nil
		case err == nil && try+1 >= looks:
			return v.settle(ctx, left)
		}
		if !pause(ctx, try) {
			return join(context.Cause(ctx), err)
		}
	}
}

// look asks all servers once. left are the ids on which no majority agrees. An error says that no majority answered.
// What no majority can read is left out after the last look: no round could decide about it.
func (v *view) look(ctx context.Context, ids []string, try int) (left []string, err error) {
	asked := ids
	if v.kind == store.KindGroup {
		for _, id := range ids {
			asked = append(slices.Clip(asked), counterID(id))
		}
	}
	answers := ask(ctx, v.store, func(ctx context.Context, at *server) (sight, error) {
		return at.look(ctx, v.kind, asked)
	})
	readings := make(map[string]*reading, len(ids))
	for _, id := range ids {
		r := quorum.Read[quorum.Value](len(v.store.servers))
		readings[id] = &r
	}
	v.times, left = v.times[:0], ids
	need := quorum.Majority(len(v.store.servers))
	wait := newPatience(try)
	defer wait.stop()
	err = gather(ctx, answers, wait, func(got said[sight]) bool {
		if got.err != nil {
			return false
		}
		if left = v.shown(got.server, got.value, readings, left); len(v.times) < need {
			return false
		}
		wait.shorten()
		return len(left) == 0
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return left, err
	case len(v.times) < need:
		return left, v.store.tooFew(len(v.times), err)
	}
	if try+1 >= looks {
		left = slices.DeleteFunc(slices.Clone(left), func(id string) bool {
			why, some := v.foreign[id]
			lost := some && readings[id].Answers() < need
			if lost {
				v.unreadable = append(v.unreadable, store.Unreadable{Kind: v.kind, ID: id, Err: why})
			}
			return lost
		})
	}
	return left, nil
}

// shown takes one server's answer. It returns the ids that are still open.
func (v *view) shown(from int, seen sight, readings map[string]*reading, left []string) []string {
	v.times = append(v.times, seen.Now)
	v.floor = max(v.floor, seen.Floor)
	for _, d := range seen.Docs {
		if isCounter(d) {
			v.store.sum(groupOf(d.ID), from, quorum.Count{Count: d.Count, Rev: d.Rev})
		}
	}
	var open []string
	for _, id := range left {
		if is, some := seen.foreign[id]; some {
			v.foreign[id] = is.err
			open = append(open, id)
			continue
		}
		r, ok := seen.records[id]
		if !ok {
			r.Floor = seen.meta.Floor
		}
		readings[id].Shown(from, r.acceptor)
		if agreed, ok := readings[id].Agreed(); ok {
			v.found[id] = agreed.Value
		} else {
			open = append(open, id)
		}
	}
	return open
}

// settle has rounds decide that nothing changes.
func (v *view) settle(ctx context.Context, ids []string) error {
	for part := range slices.Chunk(ids, store.MaxBatch) {
		items := make([]*item, len(part))
		for i, id := range part {
			items[i] = &item{key: key{v.kind, id}, judge: func(found quorum.Value, _ bool) (quorum.Value, bool) {
				v.found[id] = found
				return found, false
			}}
		}
		if err := v.store.decide(ctx, items); err != nil {
			return err
		}
	}
	return nil
}

// reply is an empty one, with the time of a majority. The floor is above every tombstone that was seen.
func (v *view) reply() store.Reply {
	floor := v.floor
	for _, x := range v.found {
		if x.Is == quorum.Deleted {
			floor = max(floor, x.Doc.Rev)
		}
	}
	return store.Reply{Now: v.store.now(v.times), Floor: floor, Unreadable: v.unreadable}
}

// documents are those of these ids that exist. They are the caller's.
func (v *view) documents(ids []string) []store.Doc {
	var docs []store.Doc
	for _, id := range ids {
		d := v.found[id].Document()
		if v.kind == store.KindGroup {
			d = v.store.counted(id, d)
		}
		if d == nil {
			continue
		}
		own := *d
		own.Body = slices.Clone(own.Body)
		docs = append(docs, own)
	}
	return docs
}

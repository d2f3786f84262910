package quorum

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
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
	answers := ask(ctx, v.store, func(ctx context.Context, at *server) (snapshot, error) {
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
	err = gather(ctx, answers, wait, func(got answerOf[snapshot]) bool {
		if got.err != nil {
			return false
		}
		if left = v.shown(got.server, got.value, readings, left); len(v.times) < need {
			return false
		}
		wait.onMajority()
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
func (v *view) shown(from int, seen snapshot, readings map[string]*reading, left []string) []string {
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

// List returns the documents that match, each as a majority has it. The servers filter first, by what each of them
// holds. What a majority of them lists is read, and filtered again.
func (s *Store) List(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, fmt.Errorf("list: %w", err)
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	v := s.view(kind)
	docs, err := v.list(ctx, q)
	if err != nil {
		return store.Reply{}, unavailable("list "+string(kind), err)
	}
	reply := v.reply()
	if q.CountOnly {
		reply.Unreadable = nil
		reply.Total = int64(len(docs))
		return reply, nil
	}
	reply.Docs = docs
	for i := range reply.Docs {
		if q.NoBody {
			reply.Docs[i].Body = nil
		}
	}
	return reply, nil
}

// list goes through pages of the servers until there is enough.
func (v *view) list(ctx context.Context, q store.Query) ([]store.Doc, error) {
	var docs []store.Doc
	limit := q.Limit
	if q.CountOnly {
		limit = 0
	}
	for page := q; ; {
		ids, unreadable, whole, err := v.patiently(ctx, page, limit)
		last := ""
		if len(ids) > 0 {
			last = ids[len(ids)-1]
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return invalid(id) != nil })
		if err == nil {
			err = v.read(ctx, ids)
		}
		if err != nil {
			return nil, err
		}
		for _, d := range v.documents(ids) {
			delete(unreadable, d.ID)
			if engine.Matches(&d, q) {
				docs = append(docs, d)
			}
		}
		v.unreadable = slices.AppendSeq(v.unreadable, maps.Values(unreadable))
		if limit > 0 && len(docs) >= limit {
			return docs[:limit], nil
		}
		if whole {
			return docs, nil
		}
		page = page.After(last)
	}
}

// patiently asks for candidates until a majority has answered, or ctx ends.
func (v *view) patiently(
	ctx context.Context, q store.Query, limit int,
) (ids []string, unreadable map[string]store.Unreadable, whole bool, err error) {
	for try := 0; ; try++ {
		ids, unreadable, whole, err = v.candidates(ctx, q, limit, try)
		if err == nil || !pause(ctx, try) {
			return ids, unreadable, whole, err
		}
	}
}

// candidates are ids that may match, in order, as a majority of the servers lists them. What any of them cannot read is
// among them.
func (v *view) candidates(
	ctx context.Context, q store.Query, limit, try int,
) (ids []string, unreadable map[string]store.Unreadable, whole bool, err error) {
	own := store.Query{
		Group: q.Group, Sessions: q.Sessions, Others: q.Others, States: q.States, Unsuspended: q.Unsuspended,
		Expired: q.Expired, From: q.From, To: q.To, Reverse: q.Reverse, Limit: limit, MinRev: min(q.MinRev, topRev),
		NoBody: true,
	}
	if v.kind == store.KindGroup { // few, and counters are listed under other names
		own = store.Query{Reverse: q.Reverse, NoBody: true}
	}
	answers := ask(ctx, v.store, func(ctx context.Context, at *server) (page, error) {
		return at.list(ctx, v.kind, own, limit)
	})
	var pages []quorum.Page
	need := quorum.Majority(len(v.store.servers))
	wait := newPatience(try)
	defer wait.stop()
	unreadable = map[string]store.Unreadable{}
	err = gather(ctx, answers, wait, func(got answerOf[page]) bool {
		if got.err == nil {
			pages = append(pages, got.value.Page)
		}
		for _, u := range got.value.unreadable {
			unreadable[u.ID] = u
		}
		return len(pages) >= need
	})
	if len(pages) < need {
		return nil, nil, false, v.store.tooFew(len(pages), err)
	}
	ids, whole = quorum.Merge(pages, q.Reverse)
	return ids, unreadable, whole, nil
}

// page is what one server lists, with what it cannot read.
type page struct {
	quorum.Page

	unreadable []store.Unreadable
}

// list lists ids of one server. It reads first: a list may be stale, but not behind one's own read. It reads
// afterwards: a server that has lost its disk lists nothing.
func (s *server) list(ctx context.Context, kind store.Kind, q store.Query, limit int) (page, error) {
	if _, err := s.look(ctx, kind, nil); err != nil {
		return page{}, err
	}
	client, _, err := s.serving()
	if err != nil {
		return page{}, err
	}
	reply, err := client.List(ctx, kind, q)
	if err != nil {
		return page{}, err
	}
	if _, err := s.look(ctx, kind, nil); err != nil {
		return page{}, err
	}
	p := page{Page: quorum.Page{Cut: q.Limit > 0 && len(reply.Docs) >= limit}}
	for _, d := range reply.Docs {
		if kind == store.KindGroup {
			d.ID = groupOf(d.ID)
		}
		if invalid(d.ID) == nil || p.Cut && d.ID == reply.Docs[len(reply.Docs)-1].ID {
			p.IDs = append(p.IDs, d.ID)
		}
	}
	last := ""
	if p.Cut {
		last = p.IDs[len(p.IDs)-1]
	}
	for _, u := range reply.Unreadable {
		if kind == store.KindGroup {
			u.ID = groupOf(u.ID)
		}
		if invalid(u.ID) == nil && (!p.Cut || (u.ID < last) != q.Reverse) { // else it is of the next page
			p.IDs, p.unreadable = append(p.IDs, u.ID), append(p.unreadable, u)
		}
	}
	slices.Sort(p.IDs)
	if q.Reverse {
		slices.Reverse(p.IDs)
	}
	return p, nil
}

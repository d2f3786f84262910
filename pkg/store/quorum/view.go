package quorum

import (
	"context"
	"maps"
	"slices"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// looks is how often documents are looked at before a round decides about those on which no majority agrees.
const looks = 3

// view is one read: what a majority shows of documents of one kind, with their times and floors.
type view struct {
	store *Store
	kind  driver.Kind
	found map[string]ballot.Value
	times []int64
	walls []int64
	floor int64

	foreign    map[string]error // why some server says nothing of a document
	unreadable []driver.Unreadable
}

func newView(s *Store, kind driver.Kind) *view {
	return &view{store: s, kind: kind, found: map[string]ballot.Value{}, foreign: map[string]error{}}
}

// read finds out about these ids. It never asks for promises while servers agree. With no ids it asks for the time.
func (v *view) read(ctx context.Context, ids []string) error {
	left := ids
	for try := 0; ; try++ {
		var err error
		left, err = v.look(ctx, left, try)
		switch {
		case err == nil && len(left) == 0:
			v.store.clock.now(v.times)
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
	if v.kind == driver.KindGroup {
		for _, id := range ids {
			asked = append(slices.Clip(asked), counterID(id))
		}
	}
	answers := ask(ctx, v.store.members, func(ctx context.Context, at *server) (snapshot, error) {
		return at.look(ctx, v.kind, asked)
	})
	readings := make(map[string]*reading, len(ids))
	for _, id := range ids {
		r := ballot.Read[ballot.Value](len(v.store.members.all))
		readings[id] = &r
	}
	v.times, v.walls, left = v.times[:0], v.walls[:0], ids
	need := v.store.members.majority()
	wait := newPatience(try)
	defer wait.stop()
	err = gather(ctx, answers, wait, func(got answerOf[snapshot]) bool {
		if got.err != nil {
			return false
		}
		if left = v.shown(got.server, got.value, readings, left); len(v.times) < need {
			return false
		}
		wait.shorten(grace)
		return len(left) == 0
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return left, err
	case len(v.times) < need:
		return left, v.store.members.tooFew(len(v.times), err)
	}
	if try+1 >= looks {
		left = slices.DeleteFunc(slices.Clone(left), func(id string) bool {
			why, some := v.foreign[id]
			lost := some && readings[id].Answers() < need
			if lost {
				v.unreadable = append(v.unreadable, driver.Unreadable{Kind: v.kind, ID: id, Err: why})
			}
			return lost
		})
	}
	return left, nil
}

// shown takes one server's answer. It returns the ids that are still open.
func (v *view) shown(from int, seen snapshot, readings map[string]*reading, left []string) []string {
	v.times, v.walls = append(v.times, seen.Now), append(v.walls, seen.Wall)
	v.floor = max(v.floor, seen.Floor)
	for _, d := range seen.Docs {
		if isCounter(d) {
			v.store.counters.shown(groupOf(d.ID), from, ballot.Count{Count: d.Count, Rev: d.Rev})
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
	for part := range slices.Chunk(ids, driver.MaxBatch) {
		items := make([]*item, len(part))
		for i, id := range part {
			items[i] = &item{key: key{v.kind, id}, judge: func(found ballot.Value, _ bool) (ballot.Value, bool) {
				v.found[id] = found
				return found, false
			}}
		}
		if err := v.store.proposer.decide(ctx, items); err != nil {
			return err
		}
	}
	return nil
}

// reply is an empty one, with the time of a majority. The floor is above every tombstone that was seen.
func (v *view) reply() driver.Reply {
	floor := v.floor
	for _, x := range v.found {
		if x.Is == ballot.Deleted {
			floor = max(floor, x.Doc.Rev)
		}
	}
	return driver.Reply{
		Now: v.store.clock.now(v.times), Wall: ballot.Median(v.walls...), Floor: floor, Unreadable: v.unreadable,
	}
}

// documents are those of these ids that exist. They are the caller's.
func (v *view) documents(ids []string) []driver.Doc {
	var docs []driver.Doc
	for _, id := range ids {
		d := v.found[id].Document()
		if v.kind == driver.KindGroup {
			d = v.store.counters.with(id, d)
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

// list goes through pages of the servers until there is enough.
func (v *view) list(ctx context.Context, q driver.Query) ([]driver.Doc, error) {
	var docs []driver.Doc
	limit := q.Limit
	if q.CountOnly {
		limit = 0
	}
	for page, try := q, 0; ; {
		found, err := v.candidates(ctx, page, limit, try)
		if err != nil && pause(ctx, try) {
			try++
			continue
		}
		ids := slices.DeleteFunc(slices.Clone(found.ids), isReserved)
		if err == nil {
			err = v.read(ctx, ids)
		}
		if err != nil {
			return nil, err
		}
		for _, d := range v.documents(ids) {
			delete(found.unreadable, d.ID)
			if dbstore.Matches(&d, q) {
				docs = append(docs, d)
			}
		}
		v.unreadable = slices.AppendSeq(v.unreadable, maps.Values(found.unreadable))
		if found.whole || limit > 0 && len(docs) >= limit {
			return docs, nil
		}
		page, try = page.After(found.ids[len(found.ids)-1]), 0
	}
}

// candidates are ids that may match, in order. What cannot be read of them is among them.
type candidates struct {
	ids        []string
	unreadable map[string]driver.Unreadable
	whole      bool // none follows
}

// candidates are those that a majority of the servers lists.
func (v *view) candidates(ctx context.Context, q driver.Query, limit, try int) (all candidates, err error) {
	own := driver.Query{
		Group: q.Group, Sessions: q.Sessions, Others: q.Others, States: q.States, Unsuspended: q.Unsuspended,
		Expired: q.Expired, From: q.From, To: q.To, Reverse: q.Reverse, Limit: limit, MinRev: min(q.MinRev, topRev),
		NoBody: true,
	}
	if v.kind == driver.KindGroup { // few, and counters are listed under other names
		own = driver.Query{Reverse: q.Reverse, NoBody: true}
	}
	answers := ask(ctx, v.store.members, func(ctx context.Context, at *server) (page, error) {
		return at.list(ctx, v.kind, own, limit)
	})
	var pages []ballot.Page
	need := v.store.members.majority()
	wait := newPatience(try)
	defer wait.stop()
	all.unreadable = map[string]driver.Unreadable{}
	err = gather(ctx, answers, wait, func(got answerOf[page]) bool {
		if got.err == nil {
			pages = append(pages, got.value.Page)
		}
		for _, u := range got.value.unreadable {
			all.unreadable[u.ID] = u
		}
		return len(pages) >= need
	})
	if len(pages) < need {
		return candidates{}, v.store.members.tooFew(len(pages), err)
	}
	all.ids, all.whole = ballot.Merge(pages, q.Reverse)
	return all, nil
}

// page is what one server lists, with what it cannot read.
type page struct {
	ballot.Page

	unreadable []driver.Unreadable
}

// list lists ids of one server. It reads first: a list may be stale, but not behind one's own read. It reads
// afterwards: a server that has lost its disk lists nothing.
func (s *server) list(ctx context.Context, kind driver.Kind, q driver.Query, limit int) (page, error) {
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
	p := page{Page: ballot.Page{Cut: q.Limit > 0 && len(reply.Docs) >= limit}}
	for _, d := range reply.Docs {
		if kind == driver.KindGroup {
			d.ID = groupOf(d.ID)
		}
		if !isReserved(d.ID) || p.Cut && d.ID == reply.Docs[len(reply.Docs)-1].ID {
			p.IDs = append(p.IDs, d.ID)
		}
	}
	last := ""
	if p.Cut {
		last = p.IDs[len(p.IDs)-1]
	}
	for _, u := range reply.Unreadable {
		if kind == driver.KindGroup {
			u.ID = groupOf(u.ID)
		}
		if !isReserved(u.ID) && (!p.Cut || (u.ID < last) != q.Reverse) { // else it is of the next page
			p.IDs, p.unreadable = append(p.IDs, u.ID), append(p.unreadable, u)
		}
	}
	slices.Sort(p.IDs)
	if q.Reverse {
		slices.Reverse(p.IDs)
	}
	return p, nil
}

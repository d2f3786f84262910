package etcd

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// pageSize is how many documents or entries of an index one request brings at most.
const pageSize = 1000

// Scan implements [dbstore.Backend]. All is as of one revision, and it is linearizable as well.
func (b *backend) Scan(ctx context.Context, kind driver.Kind, q driver.Query) (dbstore.Page, error) {
	for {
		v := &view{parts: b.parts, whole: true}
		if b.tidies {
			v.strays = newStrays(b.keys)
		}
		reply, err := v.list(ctx, kind, q)
		if errors.Is(err, rpctypes.ErrCompacted) && ctx.Err() == nil { // between two pages: the next snapshot
			continue
		}
		if err != nil {
			return dbstore.Page{}, err
		}
		if err := v.strays.remove(ctx, b.link); err != nil {
			err = b.translate("tidy", err)
			b.log.V(1).Info("Entries of indexes without documents stay", "reason", err.Error())
		}
		page := v.found(reply.Docs)
		page.Total = reply.Total
		return page, nil
	}
}

// list finds the way that looks at the least.
func (v *view) list(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	if q.To != "" && q.From >= q.To { // etcd takes a range that ends before it begins for an error of its own
		_, err := v.byID(ctx, kind, nil)
		return driver.Reply{}, err
	}
	p := v.keys.plan(kind, q)
	if q.CountOnly && p.exact {
		return v.count(ctx, p.spans)
	}
	var docs []driver.Doc
	var err error
	switch {
	case p.index == "":
		docs, err = v.scan(ctx, kind, p.spans[0], q)
	case p.ordered:
		docs, err = v.page(ctx, kind, p, q)
	default:
		docs, err = v.search(ctx, kind, p, q)
	}
	if err != nil {
		return driver.Reply{}, err
	}
	if p.besides != nil {
		more, err := v.search(ctx, kind, *p.besides, q)
		if err != nil {
			return driver.Reply{}, err
		}
		docs = append(docs, more...)
	}
	return dbstore.Select(docs, q), nil
}

// count counts keys, of which none is read. What cannot be read is counted as well.
func (v *view) count(ctx context.Context, spans []span) (driver.Reply, error) {
	for i := range spans {
		spans[i].countOnly = true
	}
	found, err := v.get(ctx, spans...)
	if err != nil {
		return driver.Reply{}, err
	}
	var reply driver.Reply
	for _, r := range found {
		reply.Total += r.Count
	}
	return reply, nil
}

// scan reads documents in the order of their ids, until as many match as are asked for.
func (v *view) scan(ctx context.Context, kind driver.Kind, s span, q driver.Query) ([]driver.Doc, error) {
	limited := q.Limit > 0 && !q.CountOnly && !q.Reverse
	s.limit = pageSize
	if limited {
		s.limit = min(q.Limit, pageSize)
	}
	var docs []driver.Doc
	for {
		found, err := v.get(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, kv := range found[0].Kvs {
			st := v.state(kind, v.keys.id(kind, kv.Key), []*mvccpb.KeyValue{kv})
			if st.doc != nil && dbstore.Matches(st.doc, q) {
				docs = append(docs, *st.doc)
			}
		}
		if !found[0].More || limited && len(docs) >= q.Limit {
			return docs, nil
		}
		s = s.after(found[0].Kvs)
		s.limit = min(2*s.limit, pageSize) // few of them match
	}
}

// page reads the documents that an index names in the order asked for, until as many match as are asked for.
func (v *view) page(ctx context.Context, kind driver.Kind, p plan, q driver.Query) ([]driver.Doc, error) {
	s := p.spans[0]
	s.limit = min(q.Limit, pageSize)
	var docs []driver.Doc
	for {
		if s.from >= s.to {
			return docs, nil
		}
		found, err := v.get(ctx, s)
		if err != nil {
			return nil, err
		}
		ids := v.named(kind, p.index, found[0].Kvs)
		more, err := v.byID(ctx, kind, ids)
		if err != nil {
			return nil, err
		}
		v.strays.note(kind, p.index, found[0].Kvs)
		docs = append(docs, matching(more, q)...)
		if !found[0].More || len(docs) >= q.Limit && !q.CountOnly {
			return docs, nil
		}
		s = s.after(found[0].Kvs)
		s.limit = min(2*s.limit, pageSize)
	}
}

// search reads all entries of an index that a plan names, and the documents in order of their ids, until as many match
// as are asked for.
func (v *view) search(ctx context.Context, kind driver.Kind, p plan, q driver.Query) ([]driver.Doc, error) {
	if p.ordered {
		return v.page(ctx, kind, p, q)
	}
	entries, err := v.entries(ctx, p.spans)
	if err != nil {
		return nil, err
	}
	ids := v.named(kind, p.index, entries)
	ids = slices.DeleteFunc(ids, func(id string) bool { return id < q.From || q.To != "" && id >= q.To })
	slices.Sort(ids)
	ids = slices.Compact(ids)
	limit := len(ids)
	if q.Limit > 0 && !q.CountOnly {
		limit = q.Limit
	}
	if q.Reverse {
		slices.Reverse(ids)
	}
	var docs []driver.Doc
	for len(ids) > 0 && len(docs) < limit {
		n := min(len(ids), max(limit-len(docs), 1))
		more, err := v.byID(ctx, kind, ids[:n])
		if err != nil {
			return nil, err
		}
		docs = append(docs, matching(more, q)...)
		ids = ids[n:]
	}
	v.strays.note(kind, p.index, entries)
	return docs, nil
}

// entries reads all entries of an index in these spans, a page at a time.
func (v *view) entries(ctx context.Context, spans []span) (all []*mvccpb.KeyValue, err error) {
	open := slices.Clone(spans)
	for len(open) > 0 {
		now := open[:min(len(open), keysPerRequest)]
		for i := range now {
			now[i].limit = pageSize / len(now)
		}
		found, err := v.get(ctx, now...)
		if err != nil {
			return nil, err
		}
		var rest []span
		for i, r := range found {
			all = append(all, r.Kvs...)
			if r.More {
				rest = append(rest, now[i].after(r.Kvs))
			}
		}
		open = append(rest, open[len(now):]...)
	}
	return all, nil
}

// named are the IDs at the ends of entries.
func (v *view) named(kind driver.Kind, index string, entries []*mvccpb.KeyValue) []string {
	cut := len(v.keys.index(kind, index))
	ids := make([]string, 0, len(entries))
	for _, kv := range entries {
		if id := entryID(index, string(kv.Key[cut:])); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

func matching(docs []driver.Doc, q driver.Query) []driver.Doc {
	return slices.DeleteFunc(docs, func(d driver.Doc) bool { return !dbstore.Matches(&d, q) })
}

// strays are the entries of indexes that one List meets and whose documents do not have them: another tool deleted or
// edited the document. No write takes such an entry away, and each list that meets it would read its document for
// nothing. Nil strays collect nothing.
type strays struct {
	keys keys
	read map[string]state // by ID
	all  []stray
}

type stray struct {
	entry, doc string
	mod        int64 // of the document; 0: there is none
}

func newStrays(k keys) *strays { return &strays{keys: k, read: map[string]state{}} }

// saw takes what was read of a document.
func (s *strays) saw(id string, is state) {
	if s != nil {
		s.read[id] = is
	}
}

// note compares entries with the documents that were read for them. What cannot be read is left alone: it may be
// repaired.
func (s *strays) note(kind driver.Kind, index string, entries []*mvccpb.KeyValue) {
	if s == nil {
		return
	}
	cut := len(s.keys.index(kind, index))
	for _, kv := range entries {
		key := string(kv.Key)
		id := entryID(index, key[cut:])
		is, read := s.read[id]
		if !read || is.mod != 0 && is.doc == nil {
			continue
		}
		if is.doc != nil {
			if entry, ok := s.keys.entry(is.doc, index); ok && entry == key {
				continue
			}
		}
		s.all = append(s.all, stray{entry: key, doc: s.keys.doc(kind, id), mod: is.mod})
	}
}

// remove takes those away whose documents are as they were read, as many as one request may. After an error the next
// list meets them again.
func (s *strays) remove(ctx context.Context, l *link) error {
	if s == nil || len(s.all) == 0 {
		return nil
	}
	s.all = s.all[:min(len(s.all), keysPerRequest)]
	ops := make([]clientv3.Op, len(s.all))
	for i, is := range s.all {
		as := clientv3.Compare(clientv3.ModRevision(is.doc), "=", is.mod)
		ops[i] = clientv3.OpTxn([]clientv3.Cmp{as}, []clientv3.Op{clientv3.OpDelete(is.entry)}, nil)
	}
	_, err := l.commit(ctx, ops)
	return err
}

package etcdstore

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/shardctl/shardctl/pkg/elect/internal/adapter"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// count counts keys, of which none is read. What cannot be read is counted as well.
func (v *view) count(ctx context.Context, spans []span) (store.Reply, error) {
	for i := range spans {
		spans[i].countOnly = true
	}
	found, err := v.get(ctx, spans...)
	if err != nil {
		return store.Reply{}, err
	}
	var reply store.Reply
	for _, r := range found {
		reply.Total += r.Count
	}
	return reply, nil
}

// scan reads documents in the order of their ids, until as many match as are asked for.
func (v *view) scan(ctx context.Context, kind store.Kind, s span, q store.Query) ([]store.Doc, error) {
	limited := q.Limit > 0 && !q.CountOnly && !q.Reverse
	s.limit = pageSize
	if limited {
		s.limit = min(q.Limit, pageSize)
	}
	var docs []store.Doc
	for {
		found, err := v.get(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, kv := range found[0].Kvs {
			st := v.state(kind, v.keys.id(kind, kv.Key), []*mvccpb.KeyValue{kv})
			if st.doc != nil && adapter.Matches(st.doc, q) {
				docs = append(docs, *st.doc)
			}
		}
		if !found[0].More || limited && len(docs) >= q.Limit {
			return docs, nil
		}
		s.from = string(found[0].Kvs[len(found[0].Kvs)-1].Key) + "\x00"
		s.limit = min(2*s.limit, pageSize) // few of them match
	}
}

// page reads the documents that an index names in the order asked for, until as many match as are asked for.
func (v *view) page(ctx context.Context, kind store.Kind, p plan, q store.Query) ([]store.Doc, error) {
	s := p.spans[0]
	s.limit = min(q.Limit, pageSize)
	var docs []store.Doc
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
		v.noteStrays(kind, p.index, found[0].Kvs)
		docs = append(docs, matching(more, q)...)
		if !found[0].More || len(docs) >= q.Limit && !q.CountOnly {
			return docs, nil
		}
		s.from = string(found[0].Kvs[len(found[0].Kvs)-1].Key) + "\x00"
		s.limit = min(2*s.limit, pageSize)
	}
}

// search reads all entries of an index that a plan names, and the documents in order of their ids, until as many match
// as are asked for.
func (v *view) search(ctx context.Context, kind store.Kind, p plan, q store.Query) ([]store.Doc, error) {
	if p.ordered {
		return v.page(ctx, kind, p, q)
	}
	var ids []string
	var entries []*mvccpb.KeyValue
	for part := range slices.Chunk(p.spans, keysPerRequest) {
		found, err := v.get(ctx, part...)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			ids, entries = append(ids, v.named(kind, p.index, r.Kvs)...), append(entries, r.Kvs...)
		}
	}
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
	var docs []store.Doc
	for len(ids) > 0 && len(docs) < limit {
		n := min(len(ids), max(limit-len(docs), 1))
		more, err := v.byID(ctx, kind, ids[:n])
		if err != nil {
			return nil, err
		}
		docs = append(docs, matching(more, q)...)
		ids = ids[n:]
	}
	v.noteStrays(kind, p.index, entries)
	return docs, nil
}

// named are the IDs at the ends of entries.
func (v *view) named(kind store.Kind, index string, entries []*mvccpb.KeyValue) []string {
	cut := len(v.keys.index(kind, index))
	ids := make([]string, 0, len(entries))
	for _, kv := range entries {
		if id := entryID(index, string(kv.Key[cut:])); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

func matching(docs []store.Doc, q store.Query) []store.Doc {
	return slices.DeleteFunc(docs, func(d store.Doc) bool { return !adapter.Matches(&d, q) })
}

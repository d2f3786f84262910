package etcd

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// keysPerRequest is how many keys or ranges one request asks for, within the default --max-txn-ops.
const keysPerRequest = 100

// view is what one call reads.
type view struct {
	parts
	whole  bool  // all of it is one snapshot
	rev    int64 // that of the snapshot; 0: nothing was read yet
	floor  int64
	strays *strays // nil: they are left alone

	unreadable []driver.Unreadable
}

// found is a page with the time and the floor, and with what cannot be read.
func (v *view) found(docs []driver.Doc) dbstore.Page {
	return dbstore.Page{Docs: docs, Unreadable: v.unreadable, Now: clock.Wall().UnixMilli(), Floor: v.floor}
}

// get asks for keys and ranges in one request, together with the base of the floor.
func (v *view) get(ctx context.Context, ranges ...span) ([]*etcdserverpb.RangeResponse, error) {
	ops := make([]clientv3.Op, 0, len(ranges)+1)
	ops = append(ops, clientv3.OpGet(v.keys.floor()))
	for _, r := range ranges {
		ops = append(ops, r.op(v.rev))
	}
	resp, err := v.link.ask(ctx, ops...)
	if err != nil {
		return nil, err
	}
	if v.whole && v.rev == 0 {
		v.rev = resp.Header.Revision
	}
	v.floor = max(v.floor, v.floors.at(resp.Responses[0].GetResponseRange().GetKvs(), resp.Header.Revision))
	found := make([]*etcdserverpb.RangeResponse, len(ranges))
	for i := range ranges {
		found[i] = resp.Responses[i+1].GetResponseRange()
	}
	return found, nil
}

// byID reads documents by their ids, which are in order.
func (v *view) byID(ctx context.Context, kind driver.Kind, ids []string) ([]driver.Doc, error) {
	var docs []driver.Doc
	if len(ids) == 0 && v.floor == 0 { // a reply has a floor in any case
		_, err := v.get(ctx)
		return nil, err
	}
	for part := range slices.Chunk(ids, keysPerRequest) {
		spans := make([]span, len(part))
		for i, id := range part {
			spans[i] = span{from: v.keys.doc(kind, id)}
		}
		found, err := v.get(ctx, spans...)
		if err != nil {
			return nil, err
		}
		for i, id := range part {
			s := v.state(kind, id, found[i].Kvs)
			if s.doc != nil {
				docs = append(docs, *s.doc)
			}
			v.strays.saw(id, s)
		}
	}
	return docs, nil
}

// state is what a key holds.
func (v *view) state(kind driver.Kind, id string, found []*mvccpb.KeyValue) state {
	s := v.docs.state(kind, id, found)
	if s.malformed != nil {
		v.unreadable = append(v.unreadable, driver.Unreadable{Kind: kind, ID: id, Err: s.malformed})
	}
	return s
}

// span is one key, or the range up to another.
type span struct {
	from, to  string // to is left out; empty: from alone
	limit     int    // at most so many; 0: all
	countOnly bool
}

// after is what of a span follows the last of the keys that were read, which are not none.
func (s span) after(read []*mvccpb.KeyValue) span {
	s.from = string(read[len(read)-1].Key) + "\x00"
	return s
}

// op is the request for a span at a revision; 0: now.
func (s span) op(rev int64) clientv3.Op {
	opts := []clientv3.OpOption{clientv3.WithRev(rev), clientv3.WithLimit(int64(s.limit))}
	if s.to != "" {
		opts = append(opts, clientv3.WithRange(s.to))
	}
	if s.countOnly {
		opts = append(opts, clientv3.WithCountOnly())
	}
	return clientv3.OpGet(s.from, opts...)
}

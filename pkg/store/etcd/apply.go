package etcd

import (
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// Bounds of one request. etcd's own are 128 operations (--max-txn-ops), of which a change needs up to opsOfChange below
// its own, and 1.5 MiB (--max-request-bytes).
const (
	changesPerRequest = 100
	bytesPerRequest   = 1 << 20
	requestsAtOnce    = 4
)

// pending is a change on its way.
type pending struct {
	driver.Change
	place int
	key   string
	state state // on which its condition is
	known bool  // false: it is only read
}

// CAS implements [dbstore.Backend]. Changes whose documents are not known are read by the request that writes the
// others. They are judged by what was read, and written by the next attempt.
func (b *backend) CAS(ctx context.Context, changes []driver.Change, attempt int) ([]dbstore.Result, error) {
	open := make([]*pending, len(changes))
	for i, c := range changes {
		open[i] = b.begin(c, i, attempt)
	}
	results := make([]dbstore.Result, 0, len(changes))
	for len(open) > 0 {
		ops, next := b.request(open)
		resp, err := b.link.commit(ctx, ops)
		if err != nil {
			for _, p := range open { // what became of them is not known
				b.docs.known.forget(p.key)
			}
			return results, err
		}
		for i, p := range open[:len(ops)] {
			results = append(results, b.result(p, next[i], resp.Header.Revision, resp.Responses[i]))
		}
		open = open[len(ops):]
	}
	return results, nil
}

// request is as many changes as fit into one, the first in any case, with the documents that they leave.
func (b *backend) request(open []*pending) (ops []clientv3.Op, next []*driver.Doc) {
	size := 0
	for _, p := range open {
		op, d, bytes := b.operation(p)
		if size += bytes; len(ops) > 0 && size > bytesPerRequest {
			break
		}
		ops, next = append(ops, op), append(next, d)
	}
	return ops, next
}

// begin finds out on what state of its key a change's condition is. A creation's is that there is no key, or, where
// there is one all the same, that it still holds no document. That is so for a counter as well which is not known.
func (b *backend) begin(c driver.Change, place, attempt int) *pending {
	p := &pending{Change: c, place: place, key: b.keys.doc(c.Doc.Kind, c.Doc.ID)}
	found, known := b.docs.known.get(p.key)
	switch {
	case c.Op == driver.Put && c.IfRev == 0:
		if p.known = true; attempt > 0 && known && found.doc == nil {
			p.state = found
		}
	case c.Op == driver.Increment:
		p.known, p.state = known || attempt > 0, found
	case known && found.doc != nil && found.doc.Rev == c.IfRev:
		p.known, p.state = true, found
	}
	return p
}

// operation is a change's part of a request, the document that it leaves, nil after a deletion, and how many bytes it
// takes.
func (b *backend) operation(p *pending) (op clientv3.Op, d *driver.Doc, bytes int) {
	get := clientv3.OpGet(p.key)
	if !p.known {
		return get, nil, len(p.key)
	}
	then := make([]clientv3.Op, 0, opsOfChange)
	if p.Op == driver.Delete {
		then = append(then, clientv3.OpDelete(p.key))
	} else {
		d = b.after(p)
		then = append(then, clientv3.OpPut(p.key, string(dbstore.Encode(*d))))
	}
	then = b.appendIndex(then, p.state.doc, d)
	if driver.Notable(p.state.doc, d) {
		then = append(then, clientv3.OpPut(b.keys.note(p.place), note(p.Doc, p.state.doc, d)))
	}
	as := clientv3.Compare(clientv3.ModRevision(p.key), "=", p.state.mod)
	for _, op := range then {
		bytes += len(op.KeyBytes()) + len(op.ValueBytes())
	}
	return clientv3.OpTxn([]clientv3.Cmp{as}, then, []clientv3.Op{get}), d, bytes + 2*len(p.key)
}

// opsOfChange is how many operations a change needs at most: the document, of five indexes one entry less and one more,
// and a note.
const opsOfChange = 12

// after is the document that a Put or an Increment leaves.
func (b *backend) after(p *pending) *driver.Doc {
	if p.Op == driver.Put {
		return &p.Doc
	}
	old, floor := p.state.doc, b.floors.base.Load()+p.state.mod
	if old == nil && p.state.mod != 0 { // unreadable: it goes on at a number that no reader knows it at
		old = &driver.Doc{Kind: p.Doc.Kind, ID: p.Doc.ID, Rev: floor, Count: floor}
	}
	d := dbstore.Incremented(p.Doc, old, floor)
	return &d
}

// appendIndex adds what the indexes lose and gain when old becomes d.
func (b *backend) appendIndex(ops []clientv3.Op, old, d *driver.Doc) []clientv3.Op {
	before, after := b.keys.entries(old), b.keys.entries(d)
	for _, key := range before {
		if !slices.Contains(after, key) {
			ops = append(ops, clientv3.OpDelete(key))
		}
	}
	for _, key := range after {
		if !slices.Contains(before, key) {
			ops = append(ops, clientv3.OpPut(key, ""))
		}
	}
	return ops
}

// result reads a change's part of an answer. d is the document that it leaves where it was written.
func (b *backend) result(p *pending, d *driver.Doc, rev int64, answer *etcdserverpb.ResponseOp) dbstore.Result {
	found := answer.GetResponseRange()
	if p.known {
		txn := answer.GetResponseTxn()
		if txn.GetSucceeded() {
			if d == nil {
				b.docs.known.forget(p.key)
			} else {
				b.docs.known.learn(p.key, state{mod: rev, doc: d})
			}
			return dbstore.Result{Written: true}
		}
		found = txn.GetResponses()[0].GetResponseRange()
	}
	s := b.docs.state(p.Doc.Kind, p.Doc.ID, found.GetKvs())
	return dbstore.Result{Found: s.doc, Malformed: s.malformed}
}

package etcd

import (
	"context"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

// Bounds of one request. etcd's own are 128 operations (--max-txn-ops), of which a change needs up to opsOfChange below
// its own, and 1.5 MiB (--max-request-bytes).
const (
	changesPerRequest = 100
	bytesPerRequest   = 1 << 20
	requestsAtOnce    = 4
)

// writer changes documents.
type writer struct{ parts }

// apply performs valid changes.
func (w *writer) apply(ctx context.Context, changes []store.Change) []store.Outcome {
	outcomes := make([]store.Outcome, len(changes))
	var sending sync.WaitGroup
	free := make(chan struct{}, requestsAtOnce)
	for _, r := range inRequests(changes) {
		sending.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			w.send(ctx, changes[r.from:r.to], outcomes[r.from:r.to])
		})
	}
	sending.Wait()
	return outcomes
}

// indexes are the first of some changes, and the one after the last.
type indexes struct{ from, to int }

// inRequests divides changes into those of one request each.
func inRequests(changes []store.Change) (all []indexes) {
	from, size := 0, 0
	for i, c := range changes {
		bytes := len(c.Doc.Body)
		if i > from && (i-from == changesPerRequest || size+bytes > bytesPerRequest) {
			all = append(all, indexes{from, i})
			from, size = i, 0
		}
		size += bytes
	}
	if from < len(changes) {
		all = append(all, indexes{from, len(changes)})
	}
	return all
}

// pending is a change that has no outcome yet.
type pending struct {
	store.Change
	place int
	key   string
	state state // on which its condition is
	known bool  // false: it is to be read first
}

// send performs changes and puts their outcomes in place. Those whose documents are not known are read by the same
// request that writes the others, and written by the next.
func (w *writer) send(ctx context.Context, changes []store.Change, outcomes []store.Outcome) {
	open := make([]*pending, len(changes))
	for i, c := range changes {
		open[i] = w.begin(c, i)
	}
	for len(open) > 0 {
		ops, next := w.request(open)
		resp, err := w.link.commit(ctx, ops)
		if err != nil {
			w.unanswered(open, outcomes, err)
			return
		}
		var again []*pending
		for i, p := range open[:len(ops)] {
			out, done := w.outcome(p, next[i], resp.Header.Revision, resp.Responses[i])
			if !done {
				again = append(again, p)
				continue
			}
			outcomes[p.place] = out
		}
		open = append(again, open[len(ops):]...)
	}
}

// request is as many changes as fit into one, the first in any case, with the documents that they leave.
func (w *writer) request(open []*pending) (ops []clientv3.Op, next []*store.Doc) {
	size := 0
	for _, p := range open {
		op, d, bytes := w.operation(p)
		if size += bytes; len(ops) > 0 && size > bytesPerRequest {
			break
		}
		ops, next = append(ops, op), append(next, d)
	}
	return ops, next
}

// begin finds out on what a change's condition is. A creation's is always that there is no key.
func (w *writer) begin(c store.Change, place int) *pending {
	p := &pending{Change: c, place: place, key: w.keys.doc(c.Doc.Kind, c.Doc.ID)}
	if c.Op == store.Put && c.IfRev == 0 {
		p.known = true
		return p
	}
	found, ok := w.docs.known.get(p.key)
	if ok && (c.Op == store.Increment || found.doc != nil && found.doc.Rev == c.IfRev) {
		p.state, p.known = found, true
	}
	return p
}

// operation is a change's part of a request, the document that it leaves, nil after a deletion, and how many bytes it
// takes.
func (w *writer) operation(p *pending) (op clientv3.Op, d *store.Doc, bytes int) {
	get := clientv3.OpGet(p.key)
	if !p.known {
		return get, nil, len(p.key)
	}
	then := make([]clientv3.Op, 0, opsOfChange)
	if p.Op == store.Delete {
		then = append(then, clientv3.OpDelete(p.key))
	} else {
		d = w.after(p)
		then = append(then, clientv3.OpPut(p.key, string(adapter.Encode(*d))))
	}
	then = w.appendIndex(then, p.state.doc, d)
	if store.Notable(p.state.doc, d) {
		then = append(then, clientv3.OpPut(w.keys.note(p.place), note(p.Doc, p.state.doc, d)))
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
func (w *writer) after(p *pending) *store.Doc {
	if p.Op == store.Put {
		return &p.Doc
	}
	old, floor := p.state.doc, w.floors.base.Load()+p.state.mod
	if old == nil && p.state.mod != 0 { // unreadable: it goes on at a number that no reader knows it at
		old = &store.Doc{Kind: p.Doc.Kind, ID: p.Doc.ID, Rev: floor, Count: floor}
	}
	d := adapter.Incremented(p.Doc, old, floor)
	return &d
}

// appendIndex adds what the indexes lose and gain when old becomes d.
func (w *writer) appendIndex(ops []clientv3.Op, old, d *store.Doc) []clientv3.Op {
	before, after := w.keys.entries(old), w.keys.entries(d)
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

// outcome reads a change's part of an answer. done is false when it is to be sent again: it was only read, or its
// condition holds on another state of its key than the one that was remembered.
func (w *writer) outcome(
	p *pending, d *store.Doc, rev int64, answer *etcdserverpb.ResponseOp,
) (out store.Outcome, done bool) {
	found := answer.GetResponseRange()
	if p.known {
		txn := answer.GetResponseTxn()
		if txn.GetSucceeded() {
			if d == nil {
				w.docs.known.forget(p.key)
			} else {
				w.docs.known.learn(p.key, state{mod: rev, doc: d})
			}
			return store.Outcome{Status: store.Applied}, true
		}
		found = txn.GetResponses()[0].GetResponseRange()
	}
	p.state, p.known = w.docs.state(p.Doc.Kind, p.Doc.ID, found.GetKvs()), true
	out, write := store.Judge(p.Change, p.state.doc)
	return out, !write
}

// unanswered gives changes their outcomes after an error. What became of the documents is not known.
func (w *writer) unanswered(open []*pending, outcomes []store.Outcome, cause error) {
	out := store.Outcome{Status: store.Unknown, Err: w.errs.translate("apply", cause)}
	for _, p := range open {
		w.docs.known.forget(p.key)
		outcomes[p.place] = out
	}
}

package node

import (
	"github.com/shardctl/shardctl/pkg/elect/internal/mutexes"
	"github.com/shardctl/shardctl/pkg/elect/internal/outbox"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Calls are those of this process that wait for mutexes, or hold them.
type Calls interface {
	// Became says what became of a call.
	Became(r mutexes.Result)
}

// carryMutexes does what the mutexes want done.
func (n *Node) carryMutexes(r mutexes.Ready) {
	for _, became := range r.Results {
		n.calls.Became(became)
	}
	for _, id := range r.Writes {
		n.Outbox.mutexes.Add(record.Key(id), false)
	}
	for _, session := range r.Wants {
		m := n.Moment()
		switch n.Peers.Want(session, m); {
		case n.Peers.All.Dead(session):
			n.Mutexes.Died(session, m)
		case n.Peers.All.Known(session):
			n.Mutexes.Alive(session, m)
		}
	}
	for len(r.Reads) > 0 {
		batch := r.Reads[:min(len(r.Reads), store.MaxBatch)]
		r.Reads = r.Reads[len(batch):]
		n.store.ReadMutexes(batch, func(f mutexes.Found) { n.Mutexes.Found(f, n.Moment()) })
	}
}

// expireMutexes ends the holds of mutexes when those of keys end.
func (n *Node) expireMutexes(kind protocol.KeyEventKind) {
	switch kind {
	case protocol.KeyDeadline, protocol.KeyLose:
		n.Mutexes.Expire(n.Moment())
	case protocol.KeyResume:
		n.Mutexes.Resume(n.Moment())
	default:
	}
}

// sendMutexes sends the writes of mutexes.
func (o *Outbox) sendMutexes(batch outbox.Batch) {
	ids := make([]string, len(batch.Keys))
	for i, key := range batch.Keys {
		ids[i] = string(key)
	}
	changes := o.table.Prepare(ids, o.moment())
	if len(changes) == 0 {
		o.mutexes.Done(batch)
		return
	}
	seqs := make([]int64, len(changes))
	for i, c := range changes {
		seqs[i] = o.table.Seq(c.Doc.ID)
	}
	o.store.WriteMutexes(changes, func(outs []store.Outcome, found []*protocol.MutexDoc) {
		o.mutexes.Done(batch)
		m := o.moment()
		for i, c := range changes {
			o.table.Answered(c.Doc.ID, seqs[i], record.StatusOf(outs[i]), found[i], m)
		}
	})
}

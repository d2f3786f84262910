package elect

import (
	"context"
	"iter"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// documents reads and writes the store's documents as records. It may be used concurrently; each operation takes at
// most op.
type documents struct {
	store     store.Store
	op        time.Duration
	log       logr.Logger
	malformed malformed
}

// list lists documents, limited in time.
func (d *documents) list(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, d.op)
	defer cancel()
	return d.store.List(ctx, kind, q)
}

// pageLen is how many documents are listed at once.
const pageLen = 5_000

// listLocks lists locks page by page.
func (d *documents) listLocks(ctx context.Context, q store.Query) ([]store.Doc, error) {
	var all []store.Doc
	for page, err := range d.pages(ctx, store.KindLock, q) {
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
	}
	return all, nil
}

// pages lists documents by the page, in the order of their ids, until the last one or the first error.
func (d *documents) pages(ctx context.Context, kind store.Kind, q store.Query) iter.Seq2[[]store.Doc, error] {
	q.Limit = pageLen
	return func(yield func([]store.Doc, error) bool) {
		for {
			reply, err := d.list(ctx, kind, q)
			if !yield(reply.Docs, err) || err != nil || len(reply.Docs) < pageLen {
				return
			}
			q = q.After(reply.Docs[len(reply.Docs)-1].ID)
		}
	}
}

// decodeLocks reads locks from their documents, outside the loop. Each is a thing of its own: one that stays must not
// keep the whole list in memory.
func (d *documents) decodeLocks(docs []store.Doc) []*record.Lock {
	locks := make([]*record.Lock, len(docs))
	for i := range docs {
		locks[i] = d.found(&docs[i])
	}
	return locks
}

// decodedLocks lists locks page by page, and decodes them.
func (d *documents) decodedLocks(ctx context.Context, q store.Query) ([]*record.Lock, error) {
	docs, err := d.listLocks(ctx, q)
	return d.decodeLocks(docs), err
}

func (d *documents) decodeLock(doc store.Doc) record.Lock {
	lock, err := record.LockFrom(doc)
	d.malformed.note(d.log, doc, err)
	return lock
}

// found is a lock as an outcome or a read shows it; nil when it is absent.
func (d *documents) found(doc *store.Doc) *record.Lock {
	if doc == nil {
		return nil
	}
	lock := d.decodeLock(*doc)
	return &lock
}

// applyOne sends one change. With an error the store cannot take it at all, and the outcome is unknown.
func (d *documents) applyOne(ctx context.Context, change store.Change) (store.Outcome, error) {
	outs, err := d.store.Apply(ctx, change)
	if err != nil {
		return store.Outcome{}, err
	}
	return outs[0], nil
}

// applyEach sends changes one by one: the store cannot take one of them at all, and the others must not wait for it.
// Its outcome has the error that says why.
func (d *documents) applyEach(ctx context.Context, changes []store.Change) []store.Outcome {
	outs := make([]store.Outcome, len(changes))
	for i, change := range changes {
		out, err := d.applyOne(ctx, change)
		if err != nil {
			d.log.Error(err, "The store cannot take this write", "document", string(change.Doc.Kind)+" "+change.Doc.ID)
			out.Err = err
		}
		outs[i] = out
	}
	return outs
}

func (d *documents) listSessions(ctx context.Context, l engine.SessionPoll) ([]store.Doc, error) {
	alive := []string{string(record.Live), string(record.Draining)}
	if l.All {
		reply, err := d.list(ctx, store.KindSession, store.Query{States: alive})
		return reply.Docs, err
	}
	reply, err := d.list(ctx, store.KindSession, store.Query{States: alive, From: l.From + "\x00", Limit: l.Count})
	if err != nil || len(reply.Docs) == l.Count {
		return reply.Docs, err
	}
	first, err := d.list(
		ctx, store.KindSession, store.Query{States: alive, To: l.From, Limit: l.Count - len(reply.Docs)},
	)
	return append(reply.Docs, first.Docs...), err
}

// foundMutex is a mutex as an outcome or a read shows it; nil when it is absent.
func (d *documents) foundMutex(doc *store.Doc) *protocol.MutexDoc {
	if doc == nil {
		return nil
	}
	is, err := record.MutexFrom(*doc)
	d.malformed.note(d.log, *doc, err)
	return &is
}

func (d *documents) decodeSession(doc store.Doc) record.Session {
	s, err := record.SessionFrom(doc)
	d.malformed.note(d.log, doc, err)
	return s
}

// readValue returns a value's document, whose count is the largest token that has read or set it; the zero document
// when there is none.
func (d *documents) readValue(ctx context.Context, key Key) (store.Doc, error) {
	ctx, cancel := context.WithTimeout(ctx, d.op)
	defer cancel()
	reply, err := d.store.Read(ctx, store.KindValue, string(key))
	if err != nil || len(reply.Docs) == 0 {
		return store.Doc{}, err
	}
	return reply.Docs[0], nil
}

// applyValue is applyOne, limited in time.
func (d *documents) applyValue(ctx context.Context, change store.Change) (store.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, d.op)
	defer cancel()
	return d.applyOne(ctx, change)
}

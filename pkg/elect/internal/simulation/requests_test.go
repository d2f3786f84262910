package simulation

import (
	"errors"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// requests is the store as a node reaches it: over the network.
type requests struct{ r *replica }

var errLost = errors.New("no answer in time")

// send sends a request, and hands its answer to the node. A reply shows the store's clock.
func (q requests) send(arrive func(d *documents), then func(ok bool)) {
	r, w := q.r, q.r.w
	var at int64
	w.call(r, func() {
		arrive(&w.store)
		at = w.clock()
	}, func(ok bool) {
		if ok {
			r.latest = max(r.latest, at)
		}
		then(ok)
		r.node.Settle()
		r.tick()
	})
}

// Heartbeat implements [engine.Store].
func (q requests) Heartbeat(h engine.SessionWrite, member func(store.Outcome, bool), then func(store.Outcome)) {
	var said, wrote store.Outcome
	q.send(func(*documents) {
		if h.Member != nil {
			said = q.r.w.put(h.Member)
		}
		wrote = q.r.w.put(&h.Change)
	}, func(ok bool) {
		if !ok {
			said, wrote = store.Outcome{Err: errLost}, store.Outcome{Err: errLost}
		}
		if h.Member != nil {
			member(said, false)
		}
		then(wrote)
	})
}

// ReadSession implements [engine.Store].
func (q requests) ReadSession(name string, then func(*store.Doc, *record.Session, bool, protocol.Instant)) {
	var doc store.Doc
	var says record.Session
	q.send(func(d *documents) {
		if id, ok := d.number[name]; ok {
			doc, says = d.sessions[id].doc, d.sessions[id].says
		}
	}, func(ok bool) {
		if !ok || doc.Rev == 0 {
			then(nil, nil, ok, q.r.Now())
			return
		}
		then(&doc, &says, true, q.r.Now())
	})
}

// Look implements [engine.Store].
func (q requests) Look(l engine.SessionPoll, then func([]record.Session, bool, protocol.Instant)) {
	w := q.r.w
	says := w.buffer()
	q.send(func(d *documents) {
		if !l.All {
			says = d.following(d.number[l.From], l.Count, says)
			return
		}
		for _, id := range d.alive {
			says = append(says, d.sessions[id].says)
		}
	}, func(ok bool) {
		then(says, ok, q.r.Now())
		w.buffers = append(w.buffers, says[:0])
	})
}

// ReadLocks implements [engine.Store].
func (q requests) ReadLocks(reads []engine.KeyRead, then func(engine.KeyFound)) {
	found := make([]engine.KeyFound, len(reads))
	q.send(func(d *documents) {
		for i, read := range reads {
			found[i] = engine.KeyFound{Key: read.Key, Mark: d.high[read.Key.Group()], OK: true}
			found[i].Lock = d.locks[number(read.Key)]
		}
	}, func(ok bool) {
		for i, read := range reads {
			if !ok {
				found[i] = engine.KeyFound{Key: read.Key}
			}
			then(found[i])
		}
	})
}

// WriteLocks implements [engine.Store].
func (q requests) WriteLocks(_ string, changes []store.Change, then func([]store.Outcome, []*record.Lock)) {
	outs, found := make([]store.Outcome, len(changes)), make([]*record.Lock, len(changes))
	by := q.r.id
	q.send(func(d *documents) {
		for i := range changes {
			out, wrote := d.putLock(&changes[i])
			outs[i] = out
			key := number(record.Key(changes[i].Doc.ID))
			if wrote {
				q.r.w.landed(by, key)
			}
			if outs[i].Status == store.Refused {
				found[i] = d.locks[key]
			}
		}
	}, func(ok bool) {
		if !ok {
			outs, found = lost(len(changes)), make([]*record.Lock, len(changes))
		}
		then(outs, found)
	})
}

func lost(n int) []store.Outcome {
	outs := make([]store.Outcome, n)
	for i := range outs {
		outs[i].Err = errLost
	}
	return outs
}

// Apply implements [engine.Store].
func (q requests) Apply(op string, changes []store.Change, then func([]store.Outcome, bool)) {
	outs := make([]store.Outcome, len(changes))
	q.send(func(d *documents) {
		alive := len(d.alive)
		for i := range changes {
			outs[i] = q.r.w.put(&changes[i])
		}
		if op == "kill" && len(d.alive) < alive {
			q.r.w.killed(changes[0].Doc.ID, q.r.id)
		}
	}, func(ok bool) {
		if !ok {
			outs = lost(len(changes))
		}
		then(outs, false)
	})
}

// ReadMutexes implements [engine.Store]. None is ever deleted.
func (q requests) ReadMutexes(ids []string, then func(engine.MutexFound)) {
	found := make([]engine.MutexFound, len(ids))
	q.send(func(d *documents) {
		for i, id := range ids {
			found[i] = engine.MutexFound{ID: id, OK: true}
			if is := d.mutex(id); is != nil {
				found[i].Doc = *is
			}
		}
	}, func(ok bool) {
		for i, id := range ids {
			if !ok {
				found[i] = engine.MutexFound{ID: id}
			}
			then(found[i])
		}
	})
}

// WriteMutexes implements [engine.Store].
func (q requests) WriteMutexes(changes []store.Change, then func([]store.Outcome, []*protocol.MutexDoc)) {
	outs, found := make([]store.Outcome, len(changes)), make([]*protocol.MutexDoc, len(changes))
	q.send(func(d *documents) {
		for i := range changes {
			out, wrote := d.putMutex(&changes[i])
			outs[i] = out
			if wrote {
				q.r.w.mutexLanded(changes[i].Doc.ID)
			}
			if out.Status == store.Refused {
				found[i] = d.mutex(changes[i].Doc.ID)
			}
		}
	}, func(ok bool) {
		if !ok {
			outs, found = lost(len(changes)), make([]*protocol.MutexDoc, len(changes))
		}
		then(outs, found)
	})
}

// CountLocks implements [engine.Store].
func (q requests) CountLocks(name string, then func(int64, bool)) {
	var n int
	q.send(func(d *documents) { n = len(d.sessions[d.number[name]].owned) }, func(ok bool) { then(int64(n), ok) })
}

// LocksOf implements [engine.Store].
func (q requests) LocksOf(name string, then func([]*record.Lock)) {
	var locks []*record.Lock
	q.send(func(d *documents) {
		for _, key := range d.sessions[d.number[name]].owned {
			locks = append(locks, d.locks[key])
		}
	}, func(ok bool) {
		if ok {
			then(locks)
		}
	})
}

// Sweep implements [engine.Store].
func (q requests) Sweep(alive []string, name string, then func([]*record.Lock, *store.Doc, bool)) {
	var locks []*record.Lock
	var member *store.Doc
	q.send(func(d *documents) {
		locks = d.without(alive)
		if doc := d.sessions[d.number[name]].member; doc.Rev > 0 {
			member = &doc
		}
	}, func(ok bool) { then(locks, member, ok) })
}

// Refresh implements [engine.Store]: what is read is the newest snapshot, and which sessions have changed.
func (q requests) Refresh(_ engine.RefreshPlan, then func(engine.Reading, error)) {
	r, w := q.r, q.r.w
	says := w.buffer()
	read, version, found := r.cache.states, 0, engine.Reading{}
	q.send(func(d *documents) {
		version, found = w.snap.version, w.snap.reading
		for ; read < w.snap.states; read++ {
			says = append(says, d.sessions[d.states[read]].says)
		}
	}, func(ok bool) {
		if !ok {
			then(engine.Reading{}, errLost)
			return
		}
		r.cache.arrived(version, read)
		now := r.Now()
		for i := range says {
			if says[i].Rev > 0 {
				r.node.Peers.See(&says[i], false, now, r.node.Moment())
			}
		}
		w.buffers = append(w.buffers, says[:0])
		then(found, nil)
	})
}

// Clean implements [engine.Store]: no session is dead for so long.
func (requests) Clean(int64, func() store.WriterID, func(...string)) {}

package simulation

import (
	"errors"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/driver"
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

// Read implements [engine.Store].
func (q requests) Read(r engine.ReadRequest, then func(engine.Answer)) {
	var a engine.Answer
	q.send(func(d *documents) {
		for _, id := range r.IDs {
			switch r.Kind {
			case driver.KindLock:
				a.Locks = append(a.Locks, d.locks[number(record.Key(id))])
			case driver.KindMutex: // none is ever deleted
				a.Mutexes = append(a.Mutexes, d.mutex(id))
			default:
				if n, ok := d.number[id]; ok && d.sessions[n].doc.Rev > 0 {
					a.Sessions = append(a.Sessions, d.sessions[n].says)
				}
			}
		}
		a.Marks = make(map[string]int64, len(r.Counters))
		for _, counter := range r.Counters {
			a.Marks[counter] = d.high[counter]
		}
	}, func(ok bool) {
		if !ok {
			a.Err = errLost
		}
		a.Arrived = q.r.Now()
		then(a)
	})
}

// List implements [engine.Store].
func (q requests) List(r engine.ListRequest, then func(engine.Answer)) {
	switch r := r.(type) {
	case engine.SessionPoll:
		q.poll(r, then)
	case engine.CountOwned:
		q.list(func(d *documents, a *engine.Answer) {
			a.Total = int64(len(d.sessions[d.number[r.Session]].owned))
		}, then)
	case engine.ListOwned:
		q.list(func(d *documents, a *engine.Answer) {
			for _, key := range d.sessions[d.number[r.Session]].owned {
				a.Locks = append(a.Locks, d.locks[key])
			}
		}, then)
	case engine.ListUnowned:
		q.list(func(d *documents, a *engine.Answer) {
			a.Locks = d.without(r.Alive)
			if doc := d.sessions[d.number[r.Member]].member; doc.Rev > 0 {
				a.Member = &doc
			}
		}, then)
	case engine.RefreshPlan:
		q.refresh(then)
	}
}

func (q requests) list(arrive func(*documents, *engine.Answer), then func(engine.Answer)) {
	var a engine.Answer
	q.send(func(d *documents) { arrive(d, &a) }, func(ok bool) {
		if !ok {
			a = engine.Answer{Err: errLost}
		}
		then(a)
	})
}

func (q requests) poll(l engine.SessionPoll, then func(engine.Answer)) {
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
		a := engine.Answer{Sessions: says, Arrived: q.r.Now()}
		if !ok {
			a.Err = errLost
		}
		then(a)
		w.buffers = append(w.buffers, says[:0])
	})
}

// refresh reads the newest snapshot, and which sessions have changed.
func (q requests) refresh(then func(engine.Answer)) {
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
			then(engine.Answer{Err: errLost})
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
		then(engine.Answer{Reading: found})
	})
}

// Apply implements [engine.Store].
func (q requests) Apply(r engine.ApplyRequest, then func(engine.Answer)) {
	a := engine.Answer{
		Outcomes: make([]driver.Outcome, len(r.Changes)), Locks: make([]*record.Lock, len(r.Changes)),
		Mutexes: make([]*protocol.MutexDoc, len(r.Changes)),
	}
	by := q.r.id
	q.send(func(d *documents) {
		alive := len(d.alive)
		for i := range r.Changes {
			q.applyOne(d, by, &r.Changes[i], i, &a)
		}
		if r.Op == "kill" && len(d.alive) < alive {
			q.r.w.killed(r.Changes[0].Doc.ID, q.r.id)
		}
	}, func(ok bool) {
		if !ok {
			a.Outcomes = lost(len(r.Changes))
			clear(a.Locks)
			clear(a.Mutexes)
		}
		then(a)
	})
}

// applyOne applies a change, and says what a refusal found.
func (q requests) applyOne(d *documents, by int32, c *driver.Change, i int, a *engine.Answer) {
	w := q.r.w
	switch c.Doc.Kind {
	case driver.KindLock:
		out, wrote := d.putLock(c)
		a.Outcomes[i] = out
		key := number(record.Key(c.Doc.ID))
		if wrote {
			w.landed(by, key)
		}
		if out.Status == driver.Refused {
			a.Locks[i] = d.locks[key]
		}
	case driver.KindMutex:
		out, wrote := d.putMutex(c)
		a.Outcomes[i] = out
		if wrote {
			w.mutexLanded(c.Doc.ID)
		}
		if out.Status == driver.Refused {
			a.Mutexes[i] = d.mutex(c.Doc.ID)
		}
	default:
		a.Outcomes[i] = w.put(c)
	}
}

func lost(n int) []driver.Outcome {
	outs := make([]driver.Outcome, n)
	for i := range outs {
		outs[i].Err = errLost
	}
	return outs
}

// Clean implements [engine.Store]: no session is dead for so long.
func (requests) Clean(int64, func() driver.WriterID, func(...string)) {}

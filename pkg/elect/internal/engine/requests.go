package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Requests runs store operations asynchronously: each in a goroutine of its own, its result in the loop. It is the
// engine's store.
type Requests struct {
	*Core
	Ctx  context.Context // of everything that runs asynchronously
	Work sync.WaitGroup
}

var _ Store = (*Requests)(nil)

// do runs one store operation, limited in time, and then its result in the loop.
func (c *Requests) do(op string, do func(ctx context.Context) (then func(), err error)) {
	c.long(op, func(ctx context.Context) (func(), error) {
		ctx, cancel := context.WithTimeout(ctx, c.P.Op)
		defer cancel()
		return do(ctx)
	})
}

// long is do for what takes many operations: do limits each of them.
func (c *Requests) long(op string, do func(ctx context.Context) (then func(), err error)) {
	ctx := c.Lineage.In(c.Ctx)
	c.Work.Go(func() {
		begin := c.Clock.Now()
		then, err := do(ctx)
		c.observe(StoreOperation{Op: op, Took: c.Clock.Now().HolderElapsed(begin), Err: err})
		c.Box.post(then)
	})
}

// Read implements [engine.Store].
func (c *Requests) Read(r ReadRequest, then func(Answer)) {
	c.do("read", answer(then, func(ctx context.Context) Answer { return c.read(ctx, r) }))
}

// read reads documents, and then the counters. A deletion raises the counter of the document first.
func (c *Requests) read(ctx context.Context, r ReadRequest) (a Answer) {
	var reply store.Reply
	reply, a.Err = c.Store.Read(ctx, r.Kind, r.IDs...)
	a.Arrived = c.Clock.Now()
	found := make(map[string]*store.Doc, len(reply.Docs))
	for i := range reply.Docs {
		found[reply.Docs[i].ID] = &reply.Docs[i]
	}
	for _, id := range r.IDs {
		switch doc := found[id]; r.Kind {
		case store.KindLock:
			a.Locks = append(a.Locks, c.found(doc))
		case store.KindMutex:
			a.Mutexes = append(a.Mutexes, c.foundMutex(doc))
		default:
			if doc != nil {
				a.Sessions = append(a.Sessions, c.decodeSession(*doc))
			}
		}
	}
	if a.Err != nil || len(r.Counters) == 0 || r.Kind == store.KindMutex && len(found) == len(r.IDs) {
		return a
	}
	counters := slices.Clone(r.Counters)
	slices.Sort(counters)
	reply, a.Err = c.Store.Read(ctx, store.KindGroup, slices.Compact(counters)...)
	a.Marks = make(map[string]int64, len(reply.Docs))
	for _, d := range reply.Docs {
		if d.Rev <= store.MaxMark {
			a.Marks[d.ID] = d.Rev
		}
	}
	return a
}

// List implements [engine.Store].
func (c *Requests) List(r ListRequest, then func(Answer)) {
	switch r := r.(type) {
	case SessionPoll:
		c.do("observe", answer(then, func(ctx context.Context) Answer { return c.poll(ctx, r) }))
	case CountOwned:
		c.do("count", answer(then, func(ctx context.Context) Answer { return c.count(ctx, r) }))
	case ListOwned:
		c.long("list", answer(then, func(ctx context.Context) (a Answer) {
			a.Locks, a.Err = c.decodedLocks(ctx, store.Query{Sessions: []string{r.Session}})
			return a
		}))
	case ListUnowned:
		c.long("sweep", answer(then, func(ctx context.Context) Answer { return c.sweep(ctx, r) }))
	case RefreshPlan:
		c.long("refresh", answer(then, func(ctx context.Context) (a Answer) {
			a.Reading, a.Err = c.refresh(ctx, r)
			return a
		}))
	}
}

// answer has then called in the loop with what do returns.
func answer(
	then func(Answer), do func(ctx context.Context) Answer,
) func(ctx context.Context) (func(), error) {
	return func(ctx context.Context) (func(), error) {
		a := do(ctx)
		return func() { then(a) }, a.Err
	}
}

func (c *Requests) poll(ctx context.Context, r SessionPoll) Answer {
	docs, err := c.listSessions(ctx, r)
	a := Answer{Err: err, Arrived: c.Clock.Now(), Sessions: make([]record.Session, len(docs))}
	for i, d := range docs {
		a.Sessions[i] = c.decodeSession(d)
	}
	return a
}

func (c *Requests) count(ctx context.Context, r CountOwned) Answer {
	reply, err := c.Store.List(ctx, store.KindLock, store.Query{Sessions: []string{r.Session}, CountOnly: true})
	return Answer{Total: reply.Total, Err: err}
}

func (c *Requests) sweep(ctx context.Context, r ListUnowned) (a Answer) {
	if a.Locks, a.Err = c.decodedLocks(ctx, store.Query{Others: r.Alive, Unsuspended: true}); a.Err != nil {
		return a
	}
	var members store.Reply
	members, a.Err = c.list(ctx, store.KindMember, store.Query{From: r.Member, To: r.Member + "\x00"})
	if len(members.Docs) > 0 {
		a.Member = &members.Docs[0]
	}
	return a
}

// Apply implements [engine.Store]. What refusals show is decoded here, outside the loop.
func (c *Requests) Apply(r ApplyRequest, then func(Answer)) {
	c.do(r.Op, func(ctx context.Context) (func(), error) {
		sent := c.Clock.Now()
		var outs []store.Outcome
		if !r.InOrder {
			var err error
			if outs, err = c.Store.Apply(ctx, r.Changes...); err != nil {
				outs = nil
			}
		}
		if outs == nil {
			outs = c.applyEach(ctx, r.Changes)
		}
		err := firstError(outs, nil)
		if r.Op == "heartbeat" {
			c.heartbeatDone(sent, outs[len(outs)-1].Err)
		}
		a := Answer{
			Outcomes: outs, Locks: make([]*record.Lock, len(outs)), Mutexes: make([]*protocol.MutexDoc, len(outs)),
		}
		for i, out := range outs {
			switch r.Changes[i].Doc.Kind {
			case store.KindLock:
				a.Locks[i] = c.found(out.Doc)
			case store.KindMutex:
				a.Mutexes[i] = c.foundMutex(out.Doc)
			default:
			}
		}
		return func() { then(a) }, err
	})
}

func (c *Requests) heartbeatDone(sent protocol.Instant, err error) {
	c.observe(HeartbeatAnswered{Took: c.Clock.Now().HolderElapsed(sent), Err: err})
	if err != nil {
		c.Log.V(1).Info("Heartbeat failed", "session", c.Lease.Load().Session, "error", err.Error())
	}
}

func firstError(outs []store.Outcome, err error) error {
	for _, o := range outs {
		if err == nil {
			err = o.Err
		}
	}
	return err
}

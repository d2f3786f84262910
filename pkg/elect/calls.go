package elect

import (
	"context"
	"slices"
	"sync"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// calls runs store operations asynchronously: each in a goroutine of its own, its result in the loop. It is the
// engine's store.
type calls struct {
	*core
	ctx  context.Context // of everything that runs asynchronously
	work sync.WaitGroup
}

var _ engine.Store = (*calls)(nil)

// do runs one store operation, limited in time, and then its result in the loop.
func (c *calls) do(op string, do func(ctx context.Context) (then func(), err error)) {
	c.long(op, func(ctx context.Context) (func(), error) {
		ctx, cancel := context.WithTimeout(ctx, c.p.Op)
		defer cancel()
		return do(ctx)
	})
}

// long is do for what takes many operations: do limits each of them.
func (c *calls) long(op string, do func(ctx context.Context) (then func(), err error)) {
	ctx := c.course.in(c.ctx)
	c.work.Go(func() {
		begin := c.clock.Now()
		then, err := do(ctx)
		c.cfg.Hooks.operation(op, c.clock.Now().HolderElapsed(begin), err)
		c.box.post(then)
	})
}

// Read implements [engine.Store].
func (c *calls) Read(r engine.ReadRequest, then func(engine.Answer)) {
	c.do("read", answer(then, func(ctx context.Context) engine.Answer { return c.read(ctx, r) }))
}

// read reads documents, and then the counters. Whoever deletes a document raises its counter before.
func (c *calls) read(ctx context.Context, r engine.ReadRequest) (a engine.Answer) {
	var reply store.Reply
	reply, a.Err = c.store.Read(ctx, r.Kind, r.IDs...)
	a.Arrived = c.clock.Now()
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
	reply, a.Err = c.store.Read(ctx, store.KindGroup, slices.Compact(counters)...)
	a.Marks = make(map[string]int64, len(reply.Docs))
	for _, d := range reply.Docs {
		if d.Rev <= store.MaxMark {
			a.Marks[d.ID] = d.Rev
		}
	}
	return a
}

// List implements [engine.Store].
func (c *calls) List(r engine.ListRequest, then func(engine.Answer)) {
	switch r := r.(type) {
	case engine.SessionPoll:
		c.do("observe", answer(then, func(ctx context.Context) engine.Answer { return c.poll(ctx, r) }))
	case engine.CountOwned:
		c.do("count", answer(then, func(ctx context.Context) engine.Answer { return c.count(ctx, r) }))
	case engine.ListOwned:
		c.long("list", answer(then, func(ctx context.Context) (a engine.Answer) {
			a.Locks, a.Err = c.decodedLocks(ctx, store.Query{Sessions: []string{r.Session}})
			return a
		}))
	case engine.ListUnowned:
		c.long("sweep", answer(then, func(ctx context.Context) engine.Answer { return c.sweep(ctx, r) }))
	case engine.RefreshPlan:
		c.long("refresh", answer(then, func(ctx context.Context) (a engine.Answer) {
			a.Reading, a.Err = c.refresh(ctx, r)
			return a
		}))
	}
}

// answer has then called in the loop with what do returns.
func answer(
	then func(engine.Answer), do func(ctx context.Context) engine.Answer,
) func(ctx context.Context) (func(), error) {
	return func(ctx context.Context) (func(), error) {
		a := do(ctx)
		return func() { then(a) }, a.Err
	}
}

func (c *calls) poll(ctx context.Context, r engine.SessionPoll) engine.Answer {
	docs, err := c.listSessions(ctx, r)
	a := engine.Answer{Err: err, Arrived: c.clock.Now(), Sessions: make([]record.Session, len(docs))}
	for i, d := range docs {
		a.Sessions[i] = c.decodeSession(d)
	}
	return a
}

func (c *calls) count(ctx context.Context, r engine.CountOwned) engine.Answer {
	reply, err := c.store.List(ctx, store.KindLock, store.Query{Sessions: []string{r.Session}, CountOnly: true})
	return engine.Answer{Total: reply.Total, Err: err}
}

func (c *calls) sweep(ctx context.Context, r engine.ListUnowned) (a engine.Answer) {
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
func (c *calls) Apply(r engine.ApplyRequest, then func(engine.Answer)) {
	c.do(r.Op, func(ctx context.Context) (func(), error) {
		sent := c.clock.Now()
		var outs []store.Outcome
		if !r.InOrder {
			var err error
			if outs, err = c.store.Apply(ctx, r.Changes...); err != nil {
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
		a := engine.Answer{
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

func (c *calls) heartbeatDone(sent protocol.Instant, err error) {
	c.cfg.Hooks.heartbeat(c.clock.Now().HolderElapsed(sent), err)
	if err != nil {
		c.log.V(1).Info("Heartbeat failed", "session", c.lease.Load().session, "error", err.Error())
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

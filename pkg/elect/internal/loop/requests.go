package loop

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// requests is the engine's store: it runs store operations asynchronously, each in a goroutine of its own, its result
// in the loop.
type requests struct {
	ctx     context.Context //nolint:containedctx // of all that runs asynchronously
	work    *sync.WaitGroup
	box     *mailbox
	docs    Documents
	lineage *Lineage
	times   *StoreClock
	params  protocol.Params
	log     logr.Logger
	observe func(engine.Event)
	session func() string // the session that holds the lease; empty before the first
}

var _ engine.Store = (*requests)(nil)

// do runs one store operation, limited in time, and then its result in the loop.
func (c *requests) do(op string, do func(ctx context.Context, docs Documents) (then func(), err error)) {
	c.long(op, func(ctx context.Context, docs Documents) (func(), error) {
		ctx, cancel := context.WithTimeout(ctx, c.params.Op)
		defer cancel()
		return do(ctx, docs)
	})
}

// long is do for what takes many operations: do limits each of them. They are decided on what is known now.
func (c *requests) long(op string, do func(ctx context.Context, docs Documents) (then func(), err error)) {
	docs := c.docs.DecidedOn(c.lineage.now())
	c.work.Go(func() {
		begin := c.times.Now()
		then, err := do(c.ctx, docs)
		c.observe(engine.StoreOperation{Op: op, Took: c.times.Now().HolderElapsed(begin), Err: err})
		c.box.post(func(*engine.Engine) { then() })
	})
}

// Read implements [engine.Store].
func (c *requests) Read(r engine.ReadRequest, then func(engine.Answer)) {
	c.do("read", answer(then, func(ctx context.Context, docs Documents) engine.Answer { return c.read(ctx, docs, r) }))
}

// read reads documents, and then the counters. A deletion raises the counter of the document first.
func (c *requests) read(ctx context.Context, docs Documents, r engine.ReadRequest) (a engine.Answer) {
	var reply driver.Reply
	reply, a.Err = docs.store.Read(ctx, r.Kind, r.IDs...)
	a.Arrived = c.times.Now()
	found := make(map[string]*driver.Doc, len(reply.Docs))
	for i := range reply.Docs {
		found[reply.Docs[i].ID] = &reply.Docs[i]
	}
	for _, id := range r.IDs {
		switch doc := found[id]; r.Kind {
		case driver.KindLock:
			a.Locks = append(a.Locks, docs.found(doc))
		case driver.KindMutex:
			a.Mutexes = append(a.Mutexes, docs.foundMutex(doc))
		default:
			if doc != nil {
				a.Sessions = append(a.Sessions, docs.decodeSession(*doc))
			}
		}
	}
	if a.Err != nil || len(r.Counters) == 0 || r.Kind == driver.KindMutex && len(found) == len(r.IDs) {
		return a
	}
	counters := slices.Clone(r.Counters)
	slices.Sort(counters)
	reply, a.Err = docs.store.Read(ctx, driver.KindGroup, slices.Compact(counters)...)
	a.Marks = make(map[string]int64, len(reply.Docs))
	for _, d := range reply.Docs {
		if d.Rev <= driver.MaxMark {
			a.Marks[d.ID] = d.Rev
		}
	}
	return a
}

// List implements [engine.Store].
func (c *requests) List(r engine.ListRequest, then func(engine.Answer)) {
	switch r := r.(type) {
	case engine.SessionPoll:
		c.do("observe", answer(then, func(ctx context.Context, docs Documents) engine.Answer {
			return c.poll(ctx, docs, r)
		}))
	case engine.CountOwned:
		c.do("count", answer(then, func(ctx context.Context, docs Documents) engine.Answer {
			return count(ctx, docs, r)
		}))
	case engine.ListOwned:
		c.long("list", answer(then, func(ctx context.Context, docs Documents) (a engine.Answer) {
			a.Locks, a.Err = docs.decodedLocks(ctx, driver.Query{Sessions: []string{r.Session}})
			return a
		}))
	case engine.ListUnowned:
		c.long("sweep", answer(then, func(ctx context.Context, docs Documents) engine.Answer {
			return sweep(ctx, docs, r)
		}))
	case engine.RefreshPlan:
		c.long("refresh", answer(then, func(ctx context.Context, docs Documents) (a engine.Answer) {
			a.Reading, a.Err = docs.refresh(ctx, r)
			return a
		}))
	}
}

// answer has then called in the loop with what do returns.
func answer(
	then func(engine.Answer), do func(ctx context.Context, docs Documents) engine.Answer,
) func(ctx context.Context, docs Documents) (func(), error) {
	return func(ctx context.Context, docs Documents) (func(), error) {
		a := do(ctx, docs)
		return func() { then(a) }, a.Err
	}
}

func (c *requests) poll(ctx context.Context, docs Documents, r engine.SessionPoll) engine.Answer {
	found, err := docs.listSessions(ctx, r)
	a := engine.Answer{Err: err, Arrived: c.times.Now(), Sessions: make([]record.Session, len(found))}
	for i, d := range found {
		a.Sessions[i] = docs.decodeSession(d)
	}
	return a
}

func count(ctx context.Context, docs Documents, r engine.CountOwned) engine.Answer {
	reply, err := docs.store.List(ctx, driver.KindLock, driver.Query{Sessions: []string{r.Session}, CountOnly: true})
	return engine.Answer{Total: reply.Total, Err: err}
}

func sweep(ctx context.Context, docs Documents, r engine.ListUnowned) (a engine.Answer) {
	if a.Locks, a.Err = docs.decodedLocks(ctx, driver.Query{Others: r.Alive, Unsuspended: true}); a.Err != nil {
		return a
	}
	var members driver.Reply
	members, a.Err = docs.list(ctx, driver.KindMember, driver.Query{From: r.Member, To: r.Member + "\x00"})
	if len(members.Docs) > 0 {
		a.Member = &members.Docs[0]
	}
	return a
}

// Apply implements [engine.Store]. What refusals show is decoded here, outside the loop.
func (c *requests) Apply(r engine.ApplyRequest, then func(engine.Answer)) {
	c.do(r.Op, func(ctx context.Context, docs Documents) (func(), error) {
		sent := c.times.Now()
		var outs []driver.Outcome
		if !r.InOrder {
			var err error
			if outs, err = docs.store.Apply(ctx, r.Changes...); err != nil {
				outs = nil
			}
		}
		if outs == nil {
			outs = docs.applyEach(ctx, r.Changes)
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
			case driver.KindLock:
				a.Locks[i] = docs.found(out.Doc)
			case driver.KindMutex:
				a.Mutexes[i] = docs.foundMutex(out.Doc)
			default:
			}
		}
		return func() { then(a) }, err
	})
}

func (c *requests) heartbeatDone(sent protocol.Instant, err error) {
	c.observe(engine.HeartbeatAnswered{Took: c.times.Now().HolderElapsed(sent), Err: err})
	if err != nil {
		c.log.V(1).Info("Heartbeat failed", "session", c.session(), "error", err.Error())
	}
}

// watch hands the store's notifications to the loop, for as long as there are any. Where the store has none, the
// counters are polled.
func (c *requests) watch() {
	c.work.Go(func() {
		logged := false // the first of a row of failures is logged: without a watch all works, only later
		for c.ctx.Err() == nil {
			session := c.session()
			ctx, cancel := context.WithCancel(c.ctx)
			slow := time.AfterFunc(c.params.Op, cancel) // opening it is a store operation as any other
			notifications, err := c.docs.store.Watch(ctx, driver.Interest{Session: session})
			slow.Stop()
			if errors.Is(err, driver.ErrCannotWatch) {
				cancel()
				return
			}
			switch {
			case err == nil:
				if logged {
					logged = false
					c.log.Info("The store is watched again")
				}
				c.deliver(ctx, session, notifications)
			case !logged && c.ctx.Err() == nil:
				logged = true
				c.log.Error(err, "Cannot watch the store: looking now and then until it can")
			}
			cancel()
			c.box.post(func(n *engine.Engine) { n.Notified(engine.Notification{Broken: true}) })
			_ = clock.Sleep(c.ctx, c.params.Retry) // the loop looks at ctx
		}
	})
}

// deliver hands notifications to the loop until the watch breaks or the session is another.
func (c *requests) deliver(ctx context.Context, session string, notifications <-chan driver.Notification) {
	for {
		select {
		case notification, ok := <-notifications:
			if !ok {
				return
			}
			decoded := c.decode(notification)
			c.box.post(func(n *engine.Engine) { n.Notified(decoded) })
			if c.session() != session {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// decode reads what a notification says, outside the loop.
func (c *requests) decode(x driver.Notification) engine.Notification {
	n := engine.Notification{Kind: x.Kind, ID: x.ID, Resync: x.Resync, Arrived: c.times.Now()}
	switch {
	case x.Resync || x.Doc == nil:
	case x.Kind == driver.KindSession:
		s := c.docs.decodeSession(*x.Doc)
		n.Session = &s
	case x.Kind == driver.KindLock:
		n.Lock = c.docs.found(x.Doc)
	case x.Kind == driver.KindGroup:
		n.Counter = x.Doc
	case x.Kind == driver.KindMutex:
		n.Mutex = c.docs.foundMutex(x.Doc)
	}
	return n
}

// Clean implements [engine.Store]: it removes sessions dead for an hour, mutexes unused for a day, requests whose
// time is over, and the oldest events.
func (c *requests) Clean(at int64, id func() driver.WriterID, then func(removed ...string)) {
	c.long("clean", func(ctx context.Context, docs Documents) (func(), error) {
		clean := cleaner{docs: docs, box: c.box, times: c.times}
		removed, err := clean.removeSessions(ctx, at, id)
		if err == nil {
			err = clean.removeMutexes(ctx, at)
		}
		if err == nil {
			err = clean.removeRequests(ctx, at)
		}
		if err == nil {
			err = clean.moveEvents(ctx, at, id)
		}
		if err == nil {
			err = clean.removeEvents(ctx, at)
		}
		return func() { then(removed...) }, err
	})
}

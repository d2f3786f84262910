package elect

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/refusals"
	"github.com/shardctl/shardctl/internal/releasing"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/internal/loop"
	"github.com/shardctl/shardctl/pkg/store"
)

// Elector is one process's part in the protocol. It has a session with one heartbeat for all its keys, the keys it
// holds, and what it knows of the others. Create it with [Start], or with [New] and run it with [Elector.Run].
//
// All decisions are taken by one goroutine (the loop), which never waits for the store: store operations run
// asynchronously and report back. Methods may be called concurrently.
type Elector struct {
	cfg    Config
	claims *claimNames
	loop   *loop.Loop
	// These are touched by the loop's goroutine only.
	mutexes *mutexCalls
	takes   func(Key) Runnable // makes the work of a key that is handed over; nil: it is claimed by Claim alone
}

var _ Elect = (*Elector)(nil)

// New makes an Elector. It checks the configuration, all of it, and touches nothing else.
func New(cfg Config) (*Elector, error) {
	cfg.setDefaults()
	p, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	// Who watches a store of their own tells what it refuses in their own way.
	if _, watched := cfg.Store.(*refusals.Store); !watched {
		cfg.Store = refusals.New(cfg.Store, cfg.LeaseDuration/2, func(r refusals.Refusal) {
			cfg.Logger.Error(r.Err, "Calls of the store fail again and again", "op", r.Doing())
		})
	}
	e := &Elector{cfg: cfg, claims: newClaimNames()}
	e.mutexes = newMutexCalls(e)
	e.loop = loop.New(cfg.Store, cfg.Clock, engine.Config{
		Params: p, Member: cfg.Member, Predecessors: predecessors(cfg.Predecessors, cfg.Logger), Log: cfg.Logger,
		Calls: e.mutexes, Reserved: e.reserved, OnStuck: cfg.OnStuck,
		Observe: func(x engine.Event) { cfg.observe(p, x) },
	})
	return e, nil
}

// Start makes an Elector and starts it, as [Elector.Start] does.
func Start(ctx context.Context, cfg Config) (*Elector, error) {
	e, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return e, e.Start(ctx)
}

// Start starts the loop and returns: from now on all other methods are served. When ctx ends it releases every key,
// in order, and ends the session; [Elector.Wait] returns then. It may be called once.
func (e *Elector) Start(ctx context.Context) error { return e.loop.Start(ctx) }

// Wait waits until the elector has ended. It returns nil after Close or the end of the context that it was started
// with. The context of the work under way is cancelled with cause ErrReleased then. When the store does not answer for
// the length of the lease, and nothing runs any more, it returns an error that wraps [store.ErrUnavailable] and what
// the store has said last. What the store refuses for good ([store.Lasting]) is not waited for. Others free the keys.
// ErrNotRunning before Start.
//
// Releasing in order has no time limit here: a run that ignores its context is waited for. A caller that needs a
// limit ends the process.
func (e *Elector) Wait() error { return e.loop.Wait() }

// Run is Start and Wait.
func (e *Elector) Run(ctx context.Context) error {
	if err := e.Start(ctx); err != nil {
		return err
	}
	return e.Wait()
}

// Done returns a channel that is closed when the elector has ended.
func (e *Elector) Done() <-chan struct{} { return e.loop.Over() }

// Close implements [Elect].
func (e *Elector) Close(ctx context.Context) error {
	if !e.loop.Started() {
		return ErrNotRunning
	}
	if _, inside := runKey(ctx, e.loop); inside {
		return fmt.Errorf("close: %w", ErrInsideRun)
	}
	ctx, cancel := releasing.Context(ctx, e.cfg.LeaseDuration)
	defer cancel()
	e.loop.Post((*engine.Engine).Close)
	select {
	case <-e.loop.Over():
		return e.loop.Ended()
	case <-ctx.Done():
		trouble := e.trouble(func(n *engine.Engine) error { return n.Trouble.Closing() })
		return fmt.Errorf("close: keys are still held: %w", withTrouble(context.Cause(ctx), trouble))
	}
}

// Session is this process's session, and whether its lease is valid now. It asks only the local clock, as [Lease.Valid]
// does. The ID is empty before the first session is open. It is for those who keep documents of their own under the
// session: others may take them over once its document says that it is dead.
func (e *Elector) Session() (id string, valid bool) {
	id = e.loop.Session()
	return id, e.loop.Valid(id)
}

// SessionDeadline is this process's session, and the time until nothing of its work may be alive any more unless the
// lease is renewed before: 0 or less when that moment has come, also for work of a session that was lost and has no
// successor yet. The ID is empty before the first session is open.
func (e *Elector) SessionDeadline() (id string, left time.Duration) {
	id = e.loop.Session()
	left, ok := e.loop.UntilHard(id)
	if !ok {
		return id, 0
	}
	return id, left
}

// LeaseDuration is T, the duration of this process's lease, as the configuration or the default has it.
func (e *Elector) LeaseDuration() time.Duration { return e.cfg.LeaseDuration }

// MarkDead marks a session dead, whatever it says now, and has the others look. Only who knows that nothing of the
// session's work is left may call it: a guard whose worker has died. left lists the keys that endpoints may still work
// on, and for how long. It returns nil once the document is known to say dead, also when it was
// never created. Then it is created as dead, so that a creation still under way cannot land. More remote leases than a
// document holds, a thousand or so, are [store.ErrTooLarge], and nothing is written: call it again with those then
// left.
func MarkDead(ctx context.Context, db store.Store, session string, left map[Key]time.Duration) error {
	remote := record.RemoteLeases(left)
	if err := (record.Session{Remote: remote}).Validate(); err != nil {
		return fmt.Errorf("mark session %s dead: %w", session, err)
	}
	writer := uuid.NewString()
	for seq := int64(1); ; seq++ {
		res, err := db.Read(ctx, store.KindSession, session)
		if err != nil {
			return fmt.Errorf("mark session %s dead: read it: %w", session, err)
		}
		s := record.Session{ID: session}
		if len(res.Docs) > 0 {
			if s, _ = record.SessionFrom(res.Docs[0]); s.State == record.Dead {
				return nil
			}
		}
		ifRev := s.Rev
		s.Rev, s.State, s.Remote, s.Died = protocol.DeadRev(ifRev, res.Now), record.Dead, remote, max(res.Wall, 1)
		s.Cause = "its process died, and its guard ended its tasks"
		s.WriterID = store.WriterID{Session: writer, Seq: seq}
		outs, err := db.Apply(ctx, store.Change{IfRev: ifRev, Doc: s.Doc()})
		switch {
		case err != nil:
			return fmt.Errorf("mark session %s dead: %w", session, err)
		case outs[0].Status == store.Applied:
			err := wakeAll(ctx, db)
			noteDeath(ctx, db, s)
			return err
		case outs[0].Status == store.Unknown:
			return fmt.Errorf("mark session %s dead: %w", session, outs[0].Err)
		}
		time.Sleep(time.Millisecond) // somebody else wrote it just now: look again
	}
}

// noteDeath notes an event, best effort. A session that never was has no name, and there is nothing to say of it.
func noteDeath(ctx context.Context, db store.Store, s record.Session) {
	if s.Instance == "" {
		return
	}
	e := record.Event{Time: s.Died, Type: record.EventDied, From: s.Instance, Message: s.Cause}
	e.ID = record.EventID(s.Died, s.ID, 0)
	id := store.WriterID{Session: s.WriterID.Session, Seq: s.WriterID.Seq + 1}
	if _, err := db.Apply(ctx, store.Change{Doc: e.Doc(id)}); err == nil {
		_, _ = db.Apply(ctx, record.EventsWritten())
	}
}

// wakeAll increments every group's counter.
func wakeAll(ctx context.Context, db store.Store) error {
	res, err := db.List(ctx, store.KindGroup, store.Query{NoBody: true})
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	changes := make([]store.Change, 0, len(res.Docs))
	for _, d := range res.Docs {
		changes = append(changes, store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: d.ID}})
	}
	if len(changes) == 0 {
		return nil
	}
	_, err = db.Apply(ctx, changes...)
	return err
}

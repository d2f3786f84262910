package elect

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Mutexes are the mutexes, read-write locks and semaphores of an elector: its session holds them all. Programs use them
// through package mutex.
type Mutexes struct{ e *Elector }

// Mutexes are those of the elector, which needs to be started before the first call.
func (e *Elector) Mutexes() Mutexes { return Mutexes{e} }

// MutexRequest is what a call of [Mutexes.Lock] asks for.
type MutexRequest struct {
	Limit  int  // 1: a mutex; n: a semaphore of n; 0: a read-write lock
	Shared bool // with Limit 0: to read
	Unfair bool // enters over those who wait, where the mutex is free and none of them was notified
	Try    bool // does not wait
	// MaxHold ends the hold after so long; 0: never.
	MaxHold time.Duration
	// AtLeast keeps others out for so long from the beginning of the hold on, also after its release; 0: not. Only for
	// a holder that is alone.
	AtLeast time.Duration
}

// Lock waits until the mutex is held, for as long as ctx goes on. Calls get it in the order in which they were written
// to the store. It goes on through failures of the store, and through the loss of a session, which keeps its place.
//
// The values of ctx are those of the hold's context. Errors: [ErrLocked] when ask does not wait, [ErrQueueFull],
// [ErrLimit], [ErrShared], [ErrNoClock] for AtLeast, [ErrClosed], [ErrNotRunning] or the cause of ctx. The latter is
// [ErrUnavailable] as well when the store has not shown since the call began that others were before it.
func (m Mutexes) Lock(ctx context.Context, name string, ask MutexRequest) (*Hold, error) {
	hold, err := m.lock(ctx, name, ask)
	if err != nil {
		return nil, fmt.Errorf("lock %.80q: %w", name, err)
	}
	return hold, nil
}

func (m Mutexes) lock(ctx context.Context, name string, ask MutexRequest) (*Hold, error) {
	if err := CheckMutexName(name); err != nil {
		return nil, err
	}
	if err := m.checkClock(ctx, ask); err != nil {
		return nil, err
	}
	call := &mutexCall{
		name: name, id: record.MutexID(name), claim: m.e.claims.next(), ask: protocol.MutexRequest(ask),
		values: context.WithoutCancel(ctx), answer: make(chan mutexAnswer, 1),
	}
	switch err := m.e.core.Box.Ask(ctx, func() { m.e.mutexes.ask(call) }); {
	case err != nil && ctx.Err() != nil:
		return nil, endedUnanswered(ctx)
	case err != nil:
		return nil, err
	}
	select {
	case is := <-call.answer:
		return is.hold, is.err
	case <-ctx.Done():
		return nil, m.gaveUp(ctx, call)
	case <-m.e.core.Box.Over:
		return nil, ErrClosed
	}
}

// gaveUp ends a call whose context has ended.
func (m Mutexes) gaveUp(ctx context.Context, call *mutexCall) error {
	why := make(chan error, 1)
	m.e.core.Box.PostSoon(func() { why <- m.e.mutexes.giveUp(ctx, call) })
	select {
	case err := <-why:
		return err
	case <-m.e.core.Box.Over:
		return ErrClosed
	}
}

func endedUnanswered(ctx context.Context) error {
	return fmt.Errorf("%w: the store has not answered: %w", context.Cause(ctx), ErrUnavailable)
}

// checkClock refuses what the store's clock is needed for where it has none. Its first reply says so.
func (m Mutexes) checkClock(ctx context.Context, ask MutexRequest) error {
	if ask.AtLeast <= 0 || !m.e.core.Box.Started.Load() {
		return nil
	}
	for m.e.core.Times.Revisions() == 0 {
		if m.e.readClock(ctx) == nil {
			break
		}
		select {
		case <-time.After(m.e.core.P.Retry):
		case <-ctx.Done():
			return endedUnanswered(ctx)
		case <-m.e.core.Box.Over:
			return ErrClosed
		}
	}
	if !m.e.core.Times.Has() {
		return ErrNoClock
	}
	return nil
}

// readClock has a reply of the store set its clock.
func (e *Elector) readClock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.core.Docs.Op)
	defer cancel()
	_, err := e.core.Docs.Store.Read(ctx, store.KindGroup, record.GroupMutexes)
	return err
}

// MaxMutexName is how many bytes the name of a mutex may have.
const MaxMutexName = 512

// CheckMutexName says why a mutex cannot have the name: 1 to [MaxMutexName] bytes of UTF-8 without NUL.
func CheckMutexName(name string) error {
	if name == "" {
		return errors.New("name: must not be empty")
	}
	if len(name) > MaxMutexName {
		return fmt.Errorf("name: %d bytes: at most %d are allowed: %w", len(name), MaxMutexName, ErrTooLarge)
	}
	if err := store.ValidateTexts(store.Doc{ID: name}); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	return nil
}

// claimNames gives names of calls, none of which any process uses twice.
type claimNames struct {
	process string
	last    atomic.Int64
}

func newClaimNames() *claimNames {
	var random [9]byte
	_, _ = rand.Read(random[:]) // it never fails
	return &claimNames{process: base64.RawURLEncoding.EncodeToString(random[:])}
}

func (c *claimNames) next() string { return c.process + "." + strconv.FormatInt(c.last.Add(1), 36) }

// valuesOfMutexes is the group of the values that are kept with mutexes. No group's name begins so.
const valuesOfMutexes = "~locks"

// Hold is a mutex that is held. All methods may be called concurrently.
type Hold struct {
	calls       *mutexCalls
	name, claim string
	slot        int
	ask         protocol.MutexRequest
	lease       *Lease
	run         *engine.WatchedRun

	inner    context.Context //nolint:containedctx // what Context returns, without the look at the clock
	cancel   context.CancelCauseFunc
	released atomic.Bool // by Unlock or Detach
}

var _ Checkpoint = (*Hold)(nil)

// Context ends when the hold does: with the cause [ErrReleased] at its release, [ErrLeaseLost] the moment that the
// lease can no longer be trusted, [ErrMaxHold], or [ErrClosed]. It has the values of the context that was given to
// Lock, and does not end with that.
//
// Err and Done look at the clock. So a process that was frozen for too long finds it ended
// before anything else of the process has noticed.
func (h *Hold) Context() context.Context { return holdContext{h.inner, h} }

// Token is the fencing token: give it to whatever the work changes, and let that refuse a token smaller than the
// largest it has seen. The tokens of a mutex rise for ever.
func (h *Hold) Token() int64 { return h.lease.Token() }

// Slot is the place of a holder of a semaphore of n: 0 to n - 1, no two at once the same. It is 0 of others.
func (h *Hold) Slot() int { return h.slot }

// Shared says whether others may hold it at the same time: readers, and holders of a semaphore.
func (h *Hold) Shared() bool { return h.ask.Shared || h.ask.Limit > 1 }

// Value implements [Checkpoint]: what is kept with the mutex, under this hold's token.
func (h *Hold) Value(ctx context.Context) ([]byte, error) { return h.lease.Value(ctx) }

// SetValue implements [Checkpoint].
func (h *Hold) SetValue(ctx context.Context, value []byte) error { return h.lease.SetValue(ctx, value) }

// Unlock ends the hold and its context, and returns once others may have the mutex. When ctx ends before that, it goes
// on behind. Errors: [ErrNotHeld] when it was unlocked before; [ErrLeaseLost], [ErrMaxHold] or [ErrClosed] when the
// hold had ended by itself; the cause of ctx.
func (h *Hold) Unlock(ctx context.Context) error { return h.leave(ctx, "unlock", 0) }

// Detach ends the hold and its context as Unlock does, and has the store keep others out for d, also when this process
// ends. It is advisory: the token is what protects. An error says that nothing is kept. Errors: those of Unlock; those
// of Detachable, after which the hold goes on.
func (h *Hold) Detach(ctx context.Context, d time.Duration) error {
	if err := h.Detachable(d); err != nil {
		return err
	}
	return h.leave(ctx, "detach", d)
}

// Detachable says why Detach would be refused, and changes nothing: [ErrShared] for readers and semaphores;
// [ErrNoClock]; d must be above 0.
func (h *Hold) Detachable(d time.Duration) error {
	switch {
	case d <= 0:
		return fmt.Errorf("detach %.80q: %v: must be above 0", h.name, d)
	case h.Shared():
		return fmt.Errorf("detach %.80q: %w", h.name, ErrShared)
	case !h.calls.c.Times.Has():
		return fmt.Errorf("detach %.80q: %w", h.name, ErrNoClock)
	}
	return nil
}

func (h *Hold) leave(ctx context.Context, what string, detached time.Duration) error {
	if !h.released.CompareAndSwap(false, true) {
		return fmt.Errorf("%s %.80q: unlocked before: %w", what, h.name, ErrNotHeld)
	}
	h.check()
	lost := context.Cause(h.inner)
	h.end(ErrReleased)
	box := h.calls.c.Box
	done := make(chan error, 1)
	box.PostSoon(func() { h.calls.release(h.claim, detached, lost, done) })
	if lost != nil {
		return fmt.Errorf("%s %.80q: it had ended: %w", what, h.name, lost)
	}
	select {
	case err := <-done:
		if err != nil {
			err = fmt.Errorf("%s %.80q: %w", what, h.name, err)
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s %.80q: %w", what, h.name, context.Cause(ctx))
	case <-box.Over:
		return fmt.Errorf("%s %.80q: %w", what, h.name, ErrClosed)
	}
}

// check ends the hold when its lease is over.
func (h *Hold) check() {
	if h.inner.Err() == nil && !h.lease.Valid() {
		h.end(ErrLeaseLost)
	}
}

// end ends the context; only the first cause counts.
func (h *Hold) end(cause error) {
	h.cancel(cause)
	h.lease.lost.Store(true)
	h.calls.c.Watchdog.Remove(h.run)
}

// holdRun has the watchdog end a hold.
type holdRun struct{ h *Hold }

// Stop ends the hold.
func (r holdRun) Stop(cause error) { r.h.end(cause) }

// holdContext looks at the clock whenever it is asked.
type holdContext struct {
	context.Context //nolint:containedctx // it is one

	h *Hold
}

// Err implements [context.Context].
func (c holdContext) Err() error {
	c.h.check()
	return c.Context.Err()
}

// Done implements [context.Context].
func (c holdContext) Done() <-chan struct{} {
	c.h.check()
	return c.Context.Done()
}

// mutexCalls are the calls of this process for mutexes, from the first question until the release. Only the loop
// touches them.
type mutexCalls struct {
	c    *engine.Core
	node *engine.Engine // set once there is one
	runs *runs
	hook func(MutexChange)     // nil: none
	all  map[string]*mutexCall // by claim
}

var _ engine.Calls = (*mutexCalls)(nil)

// mutexCall is one call of Lock.
type mutexCall struct {
	name, id, claim string
	ask             protocol.MutexRequest
	values          context.Context // of the hold's
	answer          chan mutexAnswer
	since           protocol.Instant // of the last step
	hold            *Hold            // nil until it is granted
	over            bool             // the hold's end was reported
	lost            error            // why the hold ended, when it did not end by its release
	released        []chan<- error
}

type mutexAnswer struct {
	hold *Hold
	err  error
}

func newMutexCalls(c *engine.Core, runs *runs, hook func(MutexChange)) *mutexCalls {
	return &mutexCalls{c: c, runs: runs, hook: hook, all: map[string]*mutexCall{}}
}

// ask begins a call.
func (mc *mutexCalls) ask(call *mutexCall) {
	mc.step(call, MutexAsked, nil)
	if mc.node.Session.Closing() {
		mc.refuse(call, ErrClosed)
		return
	}
	mc.all[call.claim] = call
	mc.node.Mutexes.Ask(call.id, call.claim, call.ask, mc.node.Moment())
}

// refuse answers a call that gets nothing.
func (mc *mutexCalls) refuse(call *mutexCall, err error) {
	delete(mc.all, call.claim)
	mc.step(call, MutexRefused, err)
	call.answer <- mutexAnswer{err: err}
}

// giveUp ends a call whose context has ended, also when it was granted a moment ago. The error is what the call
// returns: it says where the store has not shown that others are before it.
func (mc *mutexCalls) giveUp(ctx context.Context, call *mutexCall) error {
	err := context.Cause(ctx)
	if mc.all[call.claim] == nil {
		return err // it was answered
	}
	if call.hold == nil && !mc.node.Mutexes.Behind(call.id, call.claim) {
		err = endedUnanswered(ctx)
	}
	if call.hold != nil {
		call.hold.end(ErrReleased)
		mc.over(call, MutexReleased, nil)
	} else {
		mc.refuse(call, err)
	}
	mc.node.Mutexes.GiveUp(call.id, call.claim, mc.node.Moment())
	return err
}

// release takes a holder out. What keeps the mutex then is detached; 0: nothing. lost is why it had ended before; nil:
// it had not.
func (mc *mutexCalls) release(claim string, detached time.Duration, lost error, done chan<- error) {
	call := mc.all[claim]
	if call == nil {
		done <- nil
		return
	}
	if lost != nil {
		mc.over(call, MutexLost, lost)
	} else {
		mc.over(call, MutexReleased, nil)
	}
	call.released = append(call.released, done)
	if detached > 0 {
		mc.node.Mutexes.Detach(call.id, claim, detached, mc.node.Moment())
	} else {
		mc.node.Mutexes.Release(call.id, claim, mc.node.Moment())
	}
}

// reasons are the errors of the reasons of a machine.
var reasons = map[protocol.MutexReason]error{
	protocol.MutexBusy:       ErrLocked,
	protocol.QueueFull:       ErrQueueFull,
	protocol.LimitDiffers:    ErrLimit,
	protocol.NotAlone:        ErrShared,
	protocol.LeaseExpired:    ErrLeaseLost,
	protocol.HeldTooLong:     ErrMaxHold,
	protocol.HolderGone:      ErrLeaseLost,
	protocol.MutexUnwritable: ErrTooLarge,
}

// Became implements [engine.Calls].
func (mc *mutexCalls) Became(r engine.MutexResult) {
	call := mc.all[r.Claim]
	if call == nil {
		return
	}
	err := reasons[r.Reason]
	if r.Closed {
		err = ErrClosed
	}
	switch r.Kind {
	case protocol.MutexGranted:
		mc.step(call, MutexObtained, nil)
		call.hold = mc.granted(call, r)
		call.answer <- mutexAnswer{hold: call.hold}
	case protocol.MutexRefused:
		if call.hold == nil {
			mc.refuse(call, err)
			return
		}
		call.answerReleased(err) // of a detachment
	case protocol.MutexLost:
		call.lost = err
		call.hold.end(err)
		mc.over(call, MutexLost, err)
	case protocol.MutexDone:
		delete(mc.all, r.Claim)
		call.answerReleased(call.lost)
	default:
	}
}

// answerReleased answers those who wait for the release.
func (call *mutexCall) answerReleased(err error) {
	for _, done := range call.released {
		done <- err
	}
	call.released = nil
}

// granted begins a hold.
func (mc *mutexCalls) granted(call *mutexCall, r engine.MutexResult) *Hold {
	session := mc.node.Session.ID()
	ctx, cancel := context.WithCancelCause(call.values)
	h := &Hold{
		calls: mc, claim: call.claim, name: call.name, slot: r.Slot, ask: call.ask, inner: ctx, cancel: cancel,
		lease: newLease(mc.c, mc.runs, session, record.NewKey(valuesOfMutexes, call.name), r.Token, TaskStatus{}),
	}
	h.run = &engine.WatchedRun{Run: holdRun{h}, Key: h.lease.key, Session: session, Harmless: true}
	mc.c.Watchdog.Add(h.run)
	mc.c.Watchdog.Begun(h.run)
	return h
}

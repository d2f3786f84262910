package elect

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/internal/loop"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Mutexes are the mutexes, read-write locks and semaphores of an elector: its session holds them all. Programs use them
// through package mutex.
type Mutexes struct {
	calls *mutexCalls
	names *claimNames
}

// Lock waits until the mutex is held, for as long as ctx goes on. Calls get it in the order in which they were written
// to the store. It goes on through failures of the store, and through the loss of a session, which keeps its place.
//
// The values of ctx are those of the hold's context. Errors: [ErrLocked] when the request does not wait,
// [ErrQueueFull], [ErrLimit], [ErrShared], [ErrNoClock] for AtLeast, [ErrClosed], [ErrNotRunning]; the store's error
// when it refuses for good ([driver.Lasting]); or a [WaitError] when ctx ends.
func (m Mutexes) Lock(ctx context.Context, name string, request MutexRequest) (*Hold, error) {
	hold, err := m.lock(ctx, name, request)
	if err != nil {
		return nil, fmt.Errorf("lock %.80q: %w", name, err)
	}
	return hold, nil
}

func (m Mutexes) lock(ctx context.Context, name string, request MutexRequest) (*Hold, error) {
	if err := CheckMutexName(name); err != nil {
		return nil, err
	}
	if err := m.checkClock(ctx, request); err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // nobody is asked: what the loop has seen before this call says nothing about now
		return nil, &WaitError{Cause: context.Cause(ctx)}
	}
	h := &Hold{
		calls: m.calls, name: name, claim: m.names.next(), request: request, answer: make(chan error, 1),
	}
	h.inner, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	switch err := m.calls.loop.Ask(ctx, func(n *engine.Engine) { m.calls.ask(n, h) }); {
	case err != nil && ctx.Err() != nil:
		return nil, &WaitError{Cause: context.Cause(ctx)}
	case err != nil:
		return nil, err
	}
	select {
	case err := <-h.answer:
		if err != nil {
			return nil, err
		}
		return h, nil
	case <-ctx.Done():
		return nil, m.gaveUp(ctx, h)
	case <-m.calls.loop.Over():
		return nil, ErrClosed
	}
}

// gaveUp ends a call whose context has ended.
func (m Mutexes) gaveUp(ctx context.Context, h *Hold) error {
	why := make(chan error, 1)
	m.calls.loop.Post(func(n *engine.Engine) { why <- m.calls.giveUp(ctx, n, h) })
	select {
	case err := <-why:
		return err
	case <-m.calls.loop.Over():
		return ErrClosed
	}
}

// Trouble is the last error of the store that keeps calls for a mutex of this process waiting; nil: the store has
// answered since, or was not asked. It asks the loop alone, and does so when ctx has ended, too.
func (m Mutexes) Trouble(ctx context.Context, name string) (trouble error) {
	err := m.calls.loop.Ask(context.WithoutCancel(ctx), func(n *engine.Engine) {
		trouble = n.Trouble.Mutex(record.MutexID(name))
	})
	if err != nil {
		return nil // there is no session, so nothing is asked of the store
	}
	return trouble
}

// checkClock refuses what the store's clock is needed for where it has none. Its first reply says so.
func (m Mutexes) checkClock(ctx context.Context, request MutexRequest) error {
	if request.AtLeast <= 0 || !m.calls.loop.Started() {
		return nil
	}
	if m.calls.loop.Clock.Revisions() == 0 {
		if err := m.awaitReply(ctx); err != nil {
			return err
		}
	}
	if !m.calls.loop.Clock.Known() {
		return ErrNoClock
	}
	return nil
}

// awaitReply returns after a reply of the store, or once it refuses for good.
func (m Mutexes) awaitReply(ctx context.Context) error {
	for {
		err := m.calls.loop.Documents().ReadClock(ctx)
		if err == nil || driver.Lasting(err) {
			return err
		}
		select {
		case <-time.After(m.calls.loop.Params().Retry):
		case <-ctx.Done():
			return &WaitError{Cause: context.Cause(ctx), Store: err}
		case <-m.calls.loop.Over():
			return ErrClosed
		}
	}
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
	if err := driver.ValidateTexts(driver.Doc{ID: name}); err != nil {
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

// mutexCalls are the calls of this process for mutexes, from the request until the release. Only the loop touches them.
type mutexCalls struct {
	*process

	hook func(electing.MutexChange) // nil: there is none
	all  map[string]*Hold           // by claim
}

var _ engine.Calls = (*mutexCalls)(nil)

func newMutexCalls(of *process, hook func(electing.MutexChange)) *mutexCalls {
	return &mutexCalls{process: of, hook: hook, all: map[string]*Hold{}}
}

// step reports a step of a call. Its time counts from the step before.
func (mc *mutexCalls) step(h *Hold, step electing.MutexStep, now protocol.Instant, err error) {
	took := time.Duration(0)
	if step != electing.MutexAsked {
		took = now.HolderElapsed(h.since)
	}
	h.since = now
	if mc.hook != nil {
		mc.hook(electing.MutexChange{Step: step, Name: h.name, Took: took, Err: err})
	}
}

// over reports the end of a hold, once.
func (mc *mutexCalls) over(h *Hold, step electing.MutexStep, now protocol.Instant, err error) {
	if h.lease != nil && !h.over {
		h.over = true
		mc.step(h, step, now, err)
	}
}

// ask begins a call.
func (mc *mutexCalls) ask(n *engine.Engine, h *Hold) {
	m := n.Moment()
	mc.step(h, electing.MutexAsked, m.Now, nil)
	if n.Self.Closing() {
		mc.refuse(h, m.Now, ErrClosed)
		return
	}
	mc.all[h.claim] = h
	n.Mutexes.Ask(h.id(), h.claim, h.request, m)
}

// refuse answers a call that gets nothing.
func (mc *mutexCalls) refuse(h *Hold, now protocol.Instant, err error) {
	delete(mc.all, h.claim)
	mc.step(h, electing.MutexRefused, now, err)
	h.cancel(err)
	h.answer <- err
}

// giveUp ends a call whose context has ended, also when it was granted a moment ago. The error is what the call
// returns.
func (mc *mutexCalls) giveUp(ctx context.Context, n *engine.Engine, h *Hold) error {
	m, err := n.Moment(), context.Cause(ctx)
	if mc.all[h.claim] == nil {
		return cmp.Or(<-h.answer, err) // it was answered a moment ago
	}
	if h.lease == nil {
		err = &WaitError{Cause: err, Behind: n.Mutexes.All.Behind(h.id(), h.claim), Store: n.Trouble.Mutex(h.id())}
		mc.refuse(h, m.Now, err)
	} else {
		h.end(ErrReleased)
		mc.over(h, electing.MutexReleased, m.Now, nil)
	}
	n.Mutexes.GiveUp(h.id(), h.claim, m)
	return err
}

// release takes a holder out. The store keeps the mutex for another detached; 0: not at all. lost is why the hold had
// ended before; nil: it had not.
func (mc *mutexCalls) release(
	n *engine.Engine, h *Hold, detached time.Duration, lost error, done chan<- error,
) {
	if mc.all[h.claim] == nil {
		done <- nil
		return
	}
	m := n.Moment()
	if lost != nil {
		mc.over(h, electing.MutexLost, m.Now, lost)
	} else {
		mc.over(h, electing.MutexReleased, m.Now, nil)
	}
	h.releasing = append(h.releasing, done)
	n.Mutexes.Release(h.id(), h.claim, detached, m)
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
func (mc *mutexCalls) Became(r engine.MutexResult, m protocol.Moment) {
	h := mc.all[r.Claim]
	if h == nil {
		return
	}
	err := reasons[r.Reason]
	switch {
	case r.Closed:
		err = ErrClosed
	case err != nil && r.Err != nil:
		err = fmt.Errorf("%w: %w", err, r.Err)
	case r.Err != nil:
		err = r.Err
	}
	switch r.Kind {
	case protocol.MutexGranted:
		mc.step(h, electing.MutexObtained, m.Now, nil)
		mc.begin(h, r)
		h.answer <- nil
	case protocol.MutexRefused:
		if h.lease == nil {
			mc.refuse(h, m.Now, err)
			return
		}
		h.answerReleases(err) // of a detachment
	case protocol.MutexLost:
		h.lost = err
		h.end(err)
		mc.over(h, electing.MutexLost, m.Now, err)
	case protocol.MutexDone:
		delete(mc.all, r.Claim)
		h.answerReleases(h.lost)
	default:
	}
}

// begin begins a hold.
func (mc *mutexCalls) begin(h *Hold, r engine.MutexResult) {
	h.slot = r.Slot
	h.lease = newLease(mc, r.Session, record.NewKey(valuesOfMutexes, h.name), r.Token, TaskStatus{})
	h.run = &loop.WatchedRun{Run: holdRun{h}, Key: h.lease.key, Session: r.Session, Harmless: true}
	mc.loop.Watchdog.Add(h.run)
	mc.loop.Watchdog.Begun(h.run)
}

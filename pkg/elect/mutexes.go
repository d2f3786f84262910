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
	Unfair bool // enters over those who wait, where the mutex is free and none of them was told so
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
		name: name, id: record.MutexID(name), claim: m.e.claims.next(), ask: protocol.MutexAsk(ask),
		values: context.WithoutCancel(ctx), answer: make(chan mutexAnswer, 1),
	}
	switch err := m.e.box.ask(ctx, func() { m.e.loop.mutexes.ask(call) }); {
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
	case <-m.e.box.over:
		return nil, ErrClosed
	}
}

// gaveUp ends a call whose context has ended.
func (m Mutexes) gaveUp(ctx context.Context, call *mutexCall) error {
	why := make(chan error, 1)
	m.e.box.postSoon(func() { why <- m.e.loop.mutexes.giveUp(ctx, call) })
	select {
	case err := <-why:
		return err
	case <-m.e.box.over:
		return ErrClosed
	}
}

func endedUnanswered(ctx context.Context) error {
	return fmt.Errorf("%w: the store has not answered: %w", context.Cause(ctx), ErrUnavailable)
}

// checkClock refuses what the store's clock is needed for where it has none. Its first reply says so.
func (m Mutexes) checkClock(ctx context.Context, ask MutexRequest) error {
	if ask.AtLeast <= 0 || !m.e.box.started.Load() {
		return nil
	}
	for m.e.times.revisions() == 0 {
		if m.e.readClock(ctx) == nil {
			break
		}
		select {
		case <-time.After(m.e.p.Retry):
		case <-ctx.Done():
			return endedUnanswered(ctx)
		case <-m.e.box.over:
			return ErrClosed
		}
	}
	if !m.e.times.has() {
		return ErrNoClock
	}
	return nil
}

// readClock has a reply of the store set its clock.
func (e *Elector) readClock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.op)
	defer cancel()
	_, err := e.store.Read(ctx, store.KindGroup, record.GroupMutexes)
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

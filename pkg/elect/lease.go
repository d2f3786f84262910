package elect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/internal/loop"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// process is what leases, runs and holds need of their elector.
type process struct {
	loop *loop.Loop
	log  logr.Logger
}

// in returns the process itself: what embeds it is an [owner].
func (p *process) in() *process { return p }

// owner is what a lease belongs to: the run of a key, or the mutexes. There is a lease for each key that is held, so
// that it has no process of its own.
type owner interface{ in() *process }

// Lease is what a run holds in its hand. All methods may be called concurrently.
type Lease struct {
	of      owner
	key     Key
	session string
	token   atomic.Int64
	lost    atomic.Bool
	suspend atomic.Bool

	mu     sync.Mutex
	status TaskStatus
	value  *fencedValue // of the newest token that asked for it
}

// leased is the run of a key. Only the loop calls its methods.
type leased interface {
	// report notes the lease's status in the lock.
	report(n *engine.Engine, l *Lease)
	// advanceTo asks for a new token of the lease.
	advanceTo(n *engine.Engine, l *Lease, status TaskStatus, done chan<- advanceResult)
}

type advanceResult struct {
	token int64
	err   error
}

func newLease(of owner, session string, key Key, token int64, status TaskStatus) *Lease {
	l := &Lease{of: of, key: key, session: session, status: status}
	l.token.Store(token)
	return l
}

// Key is what is held.
func (l *Lease) Key() Key { return l.key }

// Session is the session that holds it.
func (l *Lease) Session() string { return l.session }

// Token is the fencing token: give it to whatever the work changes, and let that refuse a token smaller than the
// largest it has seen. It rises with every start of the key, for ever.
func (l *Lease) Token() int64 { return l.token.Load() }

// Valid says whether work may go on now. It asks only the local clock.
func (l *Lease) Valid() bool {
	return !l.lost.Load() && l.of.in().loop.Lease.Valid(l.session)
}

// Deadline is the moment, on the local clock, at which nothing of the work may be alive any more unless the lease is
// renewed before. It moves on with each acknowledged heartbeat. The zero time says the lease is lost.
func (l *Lease) Deadline() time.Time {
	left, ok := l.of.in().loop.Lease.UntilHard(l.session)
	if l.lost.Load() || !ok {
		return time.Time{}
	}
	return time.Now().Add(left)
}

// Status is what the lock says of the work, as this holder last reported it or an earlier one left it.
func (l *Lease) Status() TaskStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Report notes a new status in the lock: soon, and at most the newest one. The release of the key carries the
// newest that was reported before the run ended, in the same write. It does not wait. A status with a text beyond
// MaxText is left out, and logged.
func (l *Lease) Report(status TaskStatus) {
	if err := status.Validate(); err != nil {
		l.of.in().log.Error(err, "A status is not noted", "key", l.key)
		return
	}
	l.setStatus(status)
	l.of.in().loop.Post(func(n *engine.Engine) { l.of.(leased).report(n, l) })
}

// Advance writes the status and returns a new, larger token once the write is known to have happened. Each start
// after the first does so before it runs anything. Errors: ErrLeaseLost, ErrReleased, ErrTooLarge, or the context's
// cause.
func (l *Lease) Advance(ctx context.Context, status TaskStatus) (int64, error) {
	if err := status.Validate(); err != nil {
		return 0, fmt.Errorf("advance %s: %w", l.key, err)
	}
	done := make(chan advanceResult, 1)
	advance := func(n *engine.Engine) { l.of.(leased).advanceTo(n, l, status, done) }
	if err := l.of.in().loop.Send(ctx, advance); err != nil {
		return 0, err
	}
	select {
	case res := <-done:
		return res.token, res.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-l.of.in().loop.Over():
		return 0, ErrClosed
	}
}

// Suspend leaves the lock out of the sweeps once it is released, until it is claimed on purpose. A run
// that is done for good says so before it returns.
func (l *Lease) Suspend() { l.suspend.Store(true) }

func (l *Lease) setStatus(status TaskStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status = status
}

// Checkpoint is the value kept with a key, under one fencing token. It outlives the lock's release. Its methods may be
// called concurrently; they take turns.
//
// The document of the value notes the largest token that has read or set it. A token that is smaller is refused with
// [ErrLeaseLost], and what it has still under way fails. So once the first Value of a new owner has returned, no one
// before it can change the value any more, however long it was frozen.
//
// A call goes on through failures of the store until its outcome is known. It ends before that with ErrLeaseLost when
// the lease is no longer valid, and with the context's cause. Then a value that was to be set may or may not be kept.
type Checkpoint interface {
	// Value returns what was set last; nil when nothing was, or nothing but an empty value. The first call under a
	// token writes the token into the document before it returns. Later ones only read.
	Value(ctx context.Context) ([]byte, error)
	// SetValue keeps another value of at most [MaxValue] bytes, and returns once it is kept. It needs no Value before.
	// Under the context of a run that was asked to end it goes on until the lease's deadline of then, so that a run may
	// keep how far it came. Errors: ErrTooLarge, and those above.
	SetValue(ctx context.Context, value []byte) error
}

var _ Checkpoint = (*Lease)(nil)

// MaxValue is how many bytes a value may have. They are kept as they are.
const MaxValue = driver.MaxBody

// Value implements [Checkpoint], under the token of now.
func (l *Lease) Value(ctx context.Context) ([]byte, error) { return l.fenced().Value(ctx) }

// SetValue implements [Checkpoint], under the token of now.
func (l *Lease) SetValue(ctx context.Context, value []byte) error {
	return l.fenced().SetValue(ctx, value)
}

// Checkpoint is the value under the token of now, for good: once a new token from [Lease.Advance] has read or set the
// value, this one is refused.
func (l *Lease) Checkpoint() Checkpoint { return l.fenced() }

func (l *Lease) fenced() *fencedValue {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token := l.Token(); l.value == nil || l.value.token != token {
		l.value = &fencedValue{l: l, turn: make(chan struct{}, 1), token: token, m: protocol.Value{Token: token}}
	}
	return l.value
}

// fencedValue is the value under one token. There is one for each token, so that its writes come one after the other:
// a write that was refused may else have happened, and been written over by another of the same token.
type fencedValue struct {
	l     *Lease
	token int64
	turn  chan struct{} // holds an element while somebody uses the rest
	m     protocol.Value

	doc     driver.Doc    // as last read
	change  driver.Change // as last sent
	trouble error         // why the last was not answered
}

// Value implements [Checkpoint].
func (v *fencedValue) Value(ctx context.Context) ([]byte, error) {
	value, err := v.do(ctx, protocol.GetValue, nil)
	if err != nil {
		return nil, fmt.Errorf("value of %s under token %d: %w", v.l.key, v.token, err)
	}
	return value, nil
}

// SetValue implements [Checkpoint].
func (v *fencedValue) SetValue(ctx context.Context, value []byte) error {
	ctx, cancel := electing.Beyond(ctx, v.l.left)
	defer cancel()
	err := checkValue(value)
	if err == nil {
		// a late copy must not see what the caller does with it
		_, err = v.do(ctx, protocol.SetValue, slices.Clone(value))
	}
	if err != nil {
		return fmt.Errorf("set value of %s under token %d: %w", v.l.key, v.token, err)
	}
	return nil
}

// left is how long work under the lease may go on from now on if the lease is not renewed; 0 or less: no longer.
func (l *Lease) left() time.Duration {
	if left, ok := l.of.in().loop.Lease.UntilHard(l.session); ok && l.Valid() {
		return left
	}
	return 0
}

func checkValue(value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("%d bytes: at most %d are allowed: %w", len(value), MaxValue, ErrTooLarge)
	}
	return nil
}

// do sees one operation through, when it is its turn.
func (v *fencedValue) do(ctx context.Context, op protocol.ValueOp, value []byte) ([]byte, error) {
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-v.turn }()
	v.trouble = nil
	act := v.step(protocol.ValueEvent{Kind: protocol.ValueWanted, Op: op})
	for {
		switch act.Kind {
		case protocol.ValueDone:
			return v.doc.Body, nil
		case protocol.ValueLost:
			return nil, fmt.Errorf("token %d has read or set it since: %w", v.doc.Count, ErrLeaseLost)
		default:
		}
		ev, err := v.perform(ctx, act, value)
		if err != nil {
			if v.m.Sent && op == protocol.SetValue {
				err = fmt.Errorf("it may or may not be kept: %w", err)
			}
			v.step(protocol.ValueEvent{Kind: protocol.ValueAbandoned})
			return nil, err
		}
		act = v.step(ev)
	}
}

func (v *fencedValue) step(ev protocol.ValueEvent) protocol.ValueAction {
	var act protocol.ValueAction
	ev.Clock = v.l.of.in().loop.Clock.Revisions()
	v.m, act = v.m.Step(ev)
	return act
}

// perform does one thing, and says what came of it. The error ends the operation: nothing more is to be tried.
func (v *fencedValue) perform(
	ctx context.Context, act protocol.ValueAction, value []byte,
) (protocol.ValueEvent, error) {
	none := protocol.ValueEvent{}
	if act.Repeat {
		if err := v.pause(ctx); err != nil {
			return none, errors.Join(err, v.trouble)
		}
	}
	// before: a lineage that comes after this look must not take what it allowed
	docs := v.l.of.in().loop.Documents().DecidedOn(v.l.of.in().loop.Lineage())
	if !v.l.Valid() {
		return none, errors.Join(ErrLeaseLost, v.trouble)
	}
	if act.Kind == protocol.ReadDoc {
		doc, err := docs.ReadValue(ctx, v.l.key)
		if err != nil && !errors.Is(err, ErrUnavailable) {
			return none, err
		}
		v.doc, v.trouble = doc, err
		return protocol.ValueEvent{Kind: protocol.ValueRead, OK: err == nil, Rev: doc.Rev, Writer: doc.Count}, nil
	}
	if !act.Repeat {
		if v.m.Op == protocol.GetValue {
			value = v.doc.Body
		}
		if err := v.prepare(ctx, act, value); err != nil {
			return none, err
		}
	}
	out, err := docs.ApplyValue(ctx, v.change)
	if err != nil {
		return none, err
	}
	v.trouble = out.Err
	return protocol.ValueEvent{Kind: protocol.ValueAnswer, Status: record.StatusOf(out)}, nil
}

// prepare makes the write that is to be sent, under a writer ID of its own.
func (v *fencedValue) prepare(ctx context.Context, act protocol.ValueAction, value []byte) error {
	l := v.l
	var id driver.WriterID
	if err := l.of.in().loop.Ask(ctx, func(n *engine.Engine) { id = n.Self.IDs().Next() }); err != nil {
		return err
	}
	v.change = driver.Change{IfRev: act.IfRev, Doc: driver.Doc{
		Kind: driver.KindValue, ID: string(l.key), Group: l.key.Group(), Rev: act.NewRev, WriterID: id, Count: v.token,
		Body: value,
	}}
	return nil
}

// pause waits before what was not answered is repeated.
func (v *fencedValue) pause(ctx context.Context) error {
	timer := time.NewTimer(v.l.of.in().loop.Params().Retry)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-v.l.of.in().loop.Over():
		return ErrClosed
	}
}

// Batched is a [Checkpoint] whose SetValue calls share writes, for callers that set often. There is at most one write
// in an interval, of the newest value. Each call returns once its value or a later one is kept, with the outcome of
// that write. The first call after a rest is written at once. Its methods may be called concurrently.
type Batched struct {
	of    Checkpoint
	every time.Duration
	turn  chan struct{} // holds an element while a write is under way

	mu   sync.Mutex
	next *batch    // what is to be written next; nil: nothing
	last time.Time // when a write was begun last
}

var _ Checkpoint = (*Batched)(nil)

// batch is some calls of SetValue with one outcome.
type batch struct {
	value []byte
	flush chan struct{} // closed: it does not wait for the interval
	done  chan struct{}
	err   error // once done is closed
}

// NewBatched makes one of another, such as a [Lease]. With an interval of 0 or less the calls share a write that come
// while the one before is under way. Use one for a key: a second would write without regard for the first.
func NewBatched(of Checkpoint, every time.Duration) *Batched {
	return &Batched{of: of, every: every, turn: make(chan struct{}, 1)}
}

// Value implements [Checkpoint]. It does not wait for calls of SetValue that go on.
func (b *Batched) Value(ctx context.Context) ([]byte, error) { return b.of.Value(ctx) }

// SetValue implements [Checkpoint]. When ctx ends first, the value may or may not be kept. Under the context of a run
// that was asked to end it goes on until the deadline of what it writes to, such as a [Lease], or for ten seconds where
// that has none.
func (b *Batched) SetValue(ctx context.Context, value []byte) error {
	ctx, cancel := electing.Beyond(ctx, b.left)
	defer cancel()
	if err := checkValue(value); err != nil {
		return fmt.Errorf("set value: %w", err) // alone: it must not fail the others
	}
	w := b.join(ctx, slices.Clone(value))
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *Batched) left() time.Duration {
	if of, ok := b.of.(interface{ Deadline() time.Time }); ok {
		return time.Until(of.Deadline())
	}
	return electing.ReleaseLimit
}

// Flush has what waits for the interval written at once. It does not wait. A run that is to end calls it, so that its
// last calls of SetValue return soon.
func (b *Batched) Flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		return
	}
	select {
	case <-b.next.flush:
	default:
		close(b.next.flush)
	}
}

// join puts the value in the place of what is to be written next.
func (b *Batched) join(ctx context.Context, value []byte) *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = &batch{flush: make(chan struct{}), done: make(chan struct{})}
		// Whose context ends must not fail the others. The lease's end bounds the write.
		go b.write(context.WithoutCancel(ctx), b.next, time.Until(b.last.Add(b.every)))
	}
	b.next.value = value
	return b.next
}

func (b *Batched) write(ctx context.Context, w *batch, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.flush:
	}
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	b.mu.Lock()
	value := w.value
	b.next, b.last = nil, time.Now()
	b.mu.Unlock()
	w.err = b.of.SetValue(ctx, value)
	close(w.done)
}

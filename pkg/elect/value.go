package elect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

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
	// Errors: ErrTooLarge, and those above.
	SetValue(ctx context.Context, value []byte) error
}

var _ Checkpoint = (*Lease)(nil)

// MaxValue is how many bytes a value may have. They are kept as they are.
const MaxValue = store.MaxBody

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

	doc     store.Doc    // as last read
	change  store.Change // as last sent
	trouble error        // why the last was not answered
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
	ev.Clock = v.l.c.times.revisions()
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
	ctx = v.l.c.course.in(ctx) // before: a course that comes after this look must not take what it allowed
	if !v.l.Valid() {
		return none, errors.Join(ErrLeaseLost, v.trouble)
	}
	if act.Kind == protocol.ReadDoc {
		doc, err := v.l.c.readValue(ctx, v.l.key)
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
	out, err := v.l.c.applyValue(ctx, v.change)
	if err != nil {
		return none, err
	}
	v.trouble = out.Err
	return protocol.ValueEvent{Kind: protocol.ValueAnswer, Status: record.StatusOf(out)}, nil
}

// prepare makes the write that is to be sent, under a writer ID of its own.
func (v *fencedValue) prepare(ctx context.Context, act protocol.ValueAction, value []byte) error {
	l := v.l
	var id store.WriterID
	if err := l.c.box.ask(ctx, func() { id = l.keeper.writerID() }); err != nil {
		return err
	}
	v.change = store.Change{IfRev: act.IfRev, Doc: store.Doc{
		Kind: store.KindValue, ID: string(l.key), Group: l.key.Group(), Rev: act.NewRev, WriterID: id, Count: v.token,
		Body: value,
	}}
	return nil
}

// pause waits before what was not answered is repeated.
func (v *fencedValue) pause(ctx context.Context) error {
	timer := time.NewTimer(v.l.c.p.Retry)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-v.l.c.box.over:
		return ErrClosed
	}
}

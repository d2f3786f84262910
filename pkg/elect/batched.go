package elect

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

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

// SetValue implements [Checkpoint]. When ctx ends first, the value may or may not be kept.
func (b *Batched) SetValue(ctx context.Context, value []byte) error {
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

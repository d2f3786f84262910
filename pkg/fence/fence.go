package fence

import (
	"context"
	"fmt"
	"math"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Fence does work under a claim.
type Fence interface {
	// Do runs work if the claim passes, and remembers its token, also when work fails. No newer claim passes before
	// work has returned, and where the fence is a transaction, before it is committed. Of shared claims several may
	// work at once.
	//
	// The error is that of the claim ([ErrOld], [ErrInvalid]), that of work, or that of the fence. With an error the
	// work does not count, where the fence is a transaction. work is called at most once, and must not call Do for the
	// same key.
	Do(ctx context.Context, c Claim, work func(ctx context.Context) error) error
}

// CheckFirst makes a Fence of a function that passes claims. The work is not part of it: something newer may pass
// while work goes on. It is for work that shows its claim once more where it writes, and is to be refused early. The
// context of work holds the claim: see [FromContext].
func CheckFirst(check func(ctx context.Context, c Claim) error) Fence { return checkFirst(check) }

type checkFirst func(ctx context.Context, c Claim) error

func (f checkFirst) Do(ctx context.Context, c Claim, work func(ctx context.Context) error) error {
	if err := f(ctx, c); err != nil {
		return err
	}
	return work(NewContext(ctx, c))
}

type claimKey struct{}

// NewContext is ctx with the claim under which the work is done. Fences call it.
func NewContext(ctx context.Context, c Claim) context.Context {
	return context.WithValue(ctx, claimKey{}, c)
}

// FromContext is the claim that work is done under. ok is false outside of [Fence.Do].
func FromContext(ctx context.Context) (c Claim, ok bool) {
	c, ok = ctx.Value(claimKey{}).(Claim)
	return c, ok
}

// Memory is a fence in the memory of one process, which forgets its marks with it. It is right where the work is in
// that memory as well. The zero value is ready to use, and its methods may be called concurrently.
//
// Claims of a key wait for their turn in the order of their calls. Each key keeps some 200 bytes for ever.
type Memory struct {
	mu   sync.Mutex
	keys map[string]*turns
}

// turns are those of one key. Memory.mu guards marks.
type turns struct {
	room  *semaphore.Weighted // one for each reader, all of it for a sole owner
	marks Marks
}

// wholeRoom leaves no reader beside a sole owner.
const wholeRoom = math.MaxInt64

// Do implements [Fence]. A token counts as seen also when work fails: what it has done by then stays. When ctx ends
// before its turn the error wraps its cause.
func (m *Memory) Do(ctx context.Context, c Claim, work func(ctx context.Context) error) error {
	if err := c.Validate(); err != nil {
		return err
	}
	key, room := m.turnsOf(c.Key), int64(wholeRoom)
	if c.Shared {
		room = 1
	}
	if err := key.room.Acquire(ctx, room); err != nil {
		return fmt.Errorf("%s: wait for its turn: %w", c, context.Cause(ctx))
	}
	defer key.room.Release(room)
	if err := m.pass(key, c); err != nil {
		return err
	}
	return work(NewContext(ctx, c))
}

func (m *Memory) turnsOf(key string) *turns {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil {
		m.keys = map[string]*turns{}
	}
	if m.keys[key] == nil {
		m.keys[key] = &turns{room: semaphore.NewWeighted(wholeRoom)}
	}
	return m.keys[key]
}

func (m *Memory) pass(key *turns, c Claim) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key.marks, err = key.marks.Pass(c)
	return err
}

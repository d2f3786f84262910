package fence

import (
	"context"
	"fmt"
	"math"
	"sync"

	"golang.org/x/sync/semaphore"
)

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

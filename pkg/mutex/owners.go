package mutex

import (
	"context"
	"fmt"
	"sync"

	"github.com/shardctl/shardctl/pkg/elect"
)

// owners are the owners of this process that hold a lock, or are about to.
type owners struct {
	mu  *sync.Mutex
	all map[ownership]*owned
}

type ownership struct{ name, owner string }

// owned is a lock of an owner.
type owned struct {
	ready chan struct{} // closed once it is held, or no one tries any more
	h     *holding      // set before that; nil: not held
	count int           // of Held
}

// settled says whether no one tries for the first hold any more.
func (o *owned) settled() bool {
	select {
	case <-o.ready:
		return true
	default:
		return false
	}
}

func newOwners() owners { return owners{mu: &sync.Mutex{}, all: map[ownership]*owned{}} }

// lock has an owner hold a lock once more. Of several calls for the first hold one asks, and the others wait for it.
func (os owners) lock(ctx context.Context, m Mutex) (*Held, error) {
	key := ownership{m.name, m.owner}
	for {
		os.mu.Lock()
		o := os.all[key]
		if o == nil {
			o = &owned{ready: make(chan struct{})}
			os.all[key] = o
			os.mu.Unlock()
			return os.first(ctx, m, key, o)
		}
		os.mu.Unlock()
		if m.ask.Try && !o.settled() {
			return nil, fmt.Errorf("lock %.80q: its owner waits for it: %w", m.name, ErrLocked)
		}
		select {
		case <-o.ready:
		case <-ctx.Done():
			trouble := m.locks.trouble(ctx, m.name) // of the call that is before this one
			return nil, fmt.Errorf("lock %.80q: %w", m.name, &elect.WaitError{
				Cause: context.Cause(ctx), Behind: trouble == nil, Store: trouble,
			})
		}
		if h, err := os.again(o, m); h != nil || err != nil {
			return h, err
		}
	}
}

// first gets the lock for an owner.
func (os owners) first(ctx context.Context, m Mutex, key ownership, o *owned) (*Held, error) {
	h, err := m.acquire(ctx)
	os.mu.Lock()
	defer os.mu.Unlock()
	defer close(o.ready)
	if err != nil {
		delete(os.all, key)
		return nil, err
	}
	h.share = &share{os, key, o}
	o.h, o.count = h, 1
	return &Held{h: h}, nil
}

// again is one more hold of a lock that the owner has; nil without an error when it has it no more.
func (os owners) again(o *owned, m Mutex) (*Held, error) {
	os.mu.Lock()
	defer os.mu.Unlock()
	switch {
	case o.h == nil || o.count == 0:
		return nil, nil //nolint:nilnil // as said
	case o.h.over(): // others are kept out until its owner has unlocked it, and so would be this call
		return nil, fmt.Errorf("lock %.80q: its owner's hold has ended: %w", m.name, context.Cause(o.h.ctx))
	case o.h.mutex.ask.Limit != m.ask.Limit:
		return nil, fmt.Errorf("lock %.80q: %w", m.name, ErrLimit)
	case o.h.mutex.ask.Shared && !m.ask.Shared:
		return nil, fmt.Errorf("lock %.80q: %w", m.name, ErrUpgrade)
	}
	o.count++
	return &Held{h: o.h}, nil
}

// share is one owner's hold, as those see it that share it.
type share struct {
	all owners
	key ownership
	of  *owned
}

// leave takes one Held away, and says whether it was the last.
func (s *share) leave() bool {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	return s.less()
}

// leaveLast takes the last Held away. Where there are more it says so, and takes none.
func (s *share) leaveLast() bool {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	return s.of.count == 1 && s.less()
}

func (s *share) less() (last bool) {
	s.of.count--
	if s.of.count == 0 {
		delete(s.all.all, s.key)
	}
	return s.of.count == 0
}

package mutex

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
)

// Locks are the locks of one process. One session holds them all, with one heartbeat, however many there are. All
// methods may be called concurrently, those of what they return as well.
type Locks struct {
	cfg    elect.Config
	opened store.Store // to be closed with the rest; nil: it is the caller's
	owners owners

	mu      sync.Mutex
	elector *elect.Elector // nil before the first use
	lent    bool           // the elector is the caller's
	closed  bool
}

// New makes the locks of an elector, whose session holds them. It is started before the first use, and the caller
// closes it.
func New(e *elect.Elector) *Locks { return &Locks{elector: e, lent: true, owners: newOwners()} }

// Open opens the store at a URI, whose driver the program imports, for locks in the cluster "default". The session
// starts with the first use. Options change its lease, its name, its logger, which the store has as well, and the like;
// the store is set.
//
// Where the password in the URI may be renewed, open the store with [store.Config.Renew], and use [OnStore].
func Open(ctx context.Context, uri string, options ...func(*elect.Config)) (*Locks, error) {
	var cfg elect.Config
	for _, set := range options {
		set(&cfg)
	}
	s, err := store.Open(ctx, store.Config{URI: uri, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	l, err := onStore(s, cfg)
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	l.opened = s
	return l, nil
}

// OnStore makes locks on a store that the caller has opened, and closes after them.
func OnStore(s store.Store, options ...func(*elect.Config)) (*Locks, error) {
	var cfg elect.Config
	for _, set := range options {
		set(&cfg)
	}
	return onStore(s, cfg)
}

func onStore(s store.Store, cfg elect.Config) (*Locks, error) {
	l := &Locks{cfg: cfg, owners: newOwners()}
	l.cfg.Store = s
	if _, err := elect.New(l.cfg); err != nil { // what it would refuse later
		return nil, fmt.Errorf("locks: %w", err)
	}
	return l, nil
}

// Mutex is the mutex of a name: one holder at a time, first come, first served. Names have 1 to 512 bytes. They are
// those of no task, whatever they are.
func (l *Locks) Mutex(name string) Mutex { return Mutex{locks: l, name: name}.limit(1) }

// Semaphore is a mutex with up to n holders at a time, 1 or more. All who use it name the same n.
func (l *Locks) Semaphore(name string, n int) Mutex { return Mutex{locks: l, name: name}.limit(n) }

// RWMutex is the read-write lock of a name: readers together, or one writer. Readers do not overtake a writer that
// waits.
func (l *Locks) RWMutex(name string) RWMutex {
	m := Mutex{locks: l, name: name}
	read := m
	read.ask.Shared = true
	return RWMutex{write: m, read: read}
}

// Close gives up what waits, ends the contexts of what is held with the cause [ErrClosed], waits until all of it is
// unlocked, and ends the session. No one else enters meanwhile. What is not unlocked within 0.9 of the lease duration
// is given back then. When ctx ends before, Close returns its cause; it counts as for [Held.Unlock]. It does nothing to
// the elector that New was given.
func (l *Locks) Close(ctx context.Context) error {
	l.mu.Lock()
	e, closed := l.elector, l.closed
	l.closed = true
	l.mu.Unlock()
	if closed || l.lent {
		return nil
	}
	ctx, cancel := electing.Release(ctx, l.cfg.LeaseDuration)
	defer cancel()
	var err error
	if e != nil {
		err = e.Close(ctx)
	}
	if l.opened != nil {
		err = errors.Join(err, l.opened.Close(ctx))
	}
	return err
}

// trouble is the last error of the store that keeps calls for a lock waiting; nil: none.
func (l *Locks) trouble(ctx context.Context, name string) error {
	l.mu.Lock()
	e := l.elector
	l.mu.Unlock()
	if e == nil {
		return nil
	}
	return e.Mutexes().Trouble(ctx, name)
}

// mutexes starts the session, the first time.
func (l *Locks) mutexes(ctx context.Context) (elect.Mutexes, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return elect.Mutexes{}, ErrClosed
	}
	if l.elector == nil {
		e, err := elect.Start(context.WithoutCancel(ctx), l.cfg)
		if err != nil {
			return elect.Mutexes{}, fmt.Errorf("locks: %w", err)
		}
		l.elector = e
	}
	return l.elector.Mutexes(), nil
}

// What callers branch on; most are those of package elect. A lock that ends by itself has ErrLost, ErrMaxHold or
// ErrClosed as the cause of its context (see [context.Cause]).
var (
	ErrLocked    = elect.ErrLocked    // others hold it, wait for it or keep it
	ErrQueueFull = elect.ErrQueueFull // as many wait as the lock's document can hold: at most 1,000
	ErrLimit     = elect.ErrLimit     // it is in use as something else, or with another n
	ErrShared    = elect.ErrShared    // only a holder that is alone can keep others out after its end
	ErrNoClock   = elect.ErrNoClock   // the store has no clock that others could wait by
	ErrNotHeld   = elect.ErrNotHeld   // it was unlocked before, or never held
	ErrLost      = elect.ErrLeaseLost // the lease could not be renewed in time, or somebody removed the holder
	ErrMaxHold   = elect.ErrMaxHold   // the maximum hold time is exceeded
	ErrClosed    = elect.ErrClosed    // Close was called

	// ErrUpgrade says that a reader asks to write. Two of them would wait for each other: unlock first.
	ErrUpgrade = errors.New("a reader cannot become the writer")
	// ErrHeldHere says that a lock is asked for under the context of its own holder, which would wait for itself. See
	// [Mutex.Reentrant].
	ErrHeldHere = errors.New("held by the caller itself")
)

package lockcommand

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
	"github.com/shardctl/shardctl/pkg/store"
)

// session is a store that is open, and an elector on it, whose session holds the lock.
type session struct {
	db      store.Store
	elector *elect.Elector
	held    *mutex.Held // nil: the lock is not held
}

// open opens the store and begins the session.
func (r *Run) open(ctx context.Context) (*session, error) {
	db, err := r.Open(ctx)
	if err != nil {
		return nil, err
	}
	cfg := r.Elector
	cfg.Store = db
	elector, err := elect.Start(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return nil, errors.Join(err, db.Close(ctx))
	}
	return &session{db: db, elector: elector}, nil
}

// leaveLimit is how long the store may take to have the lock back. Others get it after the lease in any case.
const leaveLimit = 10 * time.Second

// leave gives the lock back, and the place in the queue, and ends the session.
func (s *session) leave(ctx context.Context, lease time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(lease/2, leaveLimit))
	defer cancel()
	var err error
	if s.held != nil {
		err = s.held.Unlock(ctx)
	}
	closed := s.elector.Close(ctx)
	_ = s.db.Close(ctx) // everything that mattered is acknowledged
	if ctx.Err() == nil {
		return nil // what a lost lock says by now is known
	}
	return fmt.Errorf(
		"the store does not answer, so the lock is not given back: others get it after the lease of %v: %w", lease,
		errors.Join(err, closed),
	)
}

package dbstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Looker is a [Backend] that can look again at what operators should know of its database: settings are changed, and
// servers replaced, while clients are connected.
type Looker interface {
	// Look renews what the backend's Problems report. With an error they stay as they were.
	Look(ctx context.Context) error
}

// Problems are what is known of a database. The zero value has none. Its methods may be called concurrently.
type Problems struct {
	mu             sync.Mutex
	opened, looked []driver.Problem
}

// Add adds what was found when the database was opened, and is not looked at again.
func (p *Problems) Add(found ...driver.Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = append(p.opened, found...)
}

// Looked replaces what the look before has found.
func (p *Problems) Looked(found []driver.Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked = found
}

// All are the problems, those of the last look first. The result is the caller's.
func (p *Problems) All() []driver.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Concat(p.looked, p.opened)
}

// When a database is looked at again: regularly, and a while after a call has failed, since the server may have been
// restarted.
const (
	lookEvery = 2 * time.Minute
	lookSoon  = 10 * time.Second
)

// KeepLooking looks at a database every two minutes, and ten seconds after a call or a look has failed. It ends with
// ctx, or when there is something to receive from leave.
func KeepLooking(ctx context.Context, failed, leave <-chan struct{}, look func(context.Context) error) {
	next := time.NewTimer(lookEvery)
	defer next.Stop()
	for soon := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-leave:
			return
		case <-failed:
			if !soon {
				soon = true
				next.Reset(lookSoon)
			}
		case <-next.C:
			wait := lookEvery
			if soon = look(ctx) != nil; soon {
				wait = lookSoon
			}
			next.Reset(wait)
		}
	}
}

// KeepLooking has the store look at its database from now on. It is for clients that stay, and called once.
func (s *Store) KeepLooking() {
	s.life.Go(func() {
		ctx := s.life.Context()
		KeepLooking(ctx, s.failed, nil, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, lookSoon)
			defer cancel()
			return s.Look(ctx)
		})
	})
}

// Look looks at the database now. With an error [Store.Problems] stay as they were.
func (s *Store) Look(ctx context.Context) error {
	b, ok := s.backend.(Looker)
	if !ok {
		return nil
	}
	return s.backend.Translate("look at the settings", b.Look(ctx))
}

// fail takes note that a call has failed. One that its caller gave up says nothing.
func (s *Store) fail(err error) {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) {
		return
	}
	select {
	case s.failed <- struct{}{}:
	default:
	}
}

// Waiter is a [Backend] whose database can say what keeps calls waiting, such as a lock of everything for a backup.
type Waiter interface {
	// Waits is that as a clause for people; empty: nothing that the database says. It takes no connection that
	// heartbeats use.
	Waits(ctx context.Context) (string, error)
}

const (
	waitsEvery = 5 * time.Second              // between two questions, each of which may take as long
	waitsValid = 2*waitsEvery + 1*time.Second // how long an answer is told
)

// waits is what a database has said keeps calls waiting. It is asked in the background once a call has taken half of its
// time.
type waits struct {
	pace Pace

	mu    sync.Mutex
	says  string
	until time.Time
}

// askWhenSlow asks when half of the time of a call is over. The call stops it when it returns.
func (s *Store) askWhenSlow(ctx context.Context) (stop func() bool) {
	b, ok := s.backend.(Waiter)
	end, has := ctx.Deadline()
	left := time.Until(end)
	if !has {
		left = s.traits.Timeout
	}
	if !ok || left <= 0 {
		return func() bool { return true }
	}
	return time.AfterFunc(left/2, func() { //nolint:contextcheck // the answer is for later calls as well
		if !s.waits.pace.Let(time.Now()) {
			return
		}
		s.life.Go(func() {
			ctx, cancel := context.WithTimeout(s.life.Context(), waitsEvery)
			defer cancel()
			says, _ := b.Waits(ctx) // without an answer nothing is said
			s.waits.mu.Lock()
			defer s.waits.mu.Unlock()
			s.waits.says, s.waits.until = says, time.Now().Add(waitsValid)
		})
	}).Stop
}

// explain adds to the error of a call what the database has said a moment ago. nil stays nil.
func (w *waits) explain(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil || w.says == "" || time.Now().After(w.until) {
		return err
	}
	return fmt.Errorf("%w (%s)", err, w.says)
}

package replica

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/guard"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// guardAdapter tells the guard what the elector tells. When the guard is gone nothing needs to be told, the worker exits; grants apart,
// since a guard that only stood still goes on to mark the sessions, and would free keys whose grants it has not heard of.
type guardAdapter struct {
	client *guard.Client
	place  *guard.Place // nil without one
	log    logr.Logger
}

// told is how long writing to the guard may take; longer, and it counts as gone anyway.
const told = 5 * time.Second

func (g guardAdapter) SessionOpening(session string) {
	ctx, cancel := context.WithTimeout(context.Background(), told)
	defer cancel()
	if g.place != nil {
		_ = g.placed(g.place.Opening(session)) // a session that is not noted waits for its lease
	}
	g.note(g.client.SessionOpening(ctx, session))
}

func (g guardAdapter) SessionOver(session string) {
	if g.place != nil {
		_ = g.placed(g.place.Closed(session)) // it is marked: once more does no harm
	}
	g.note(g.client.SessionClosed(session))
}

// placed tells of what could not be noted in the place. A record that is gone holds nobody up.
func (g guardAdapter) placed(err error) error {
	if err == nil {
		return nil
	}
	g.log.Error(err, "The container's record cannot be written")
	if errors.Is(err, guard.ErrForgotten) {
		return nil
	}
	return err
}

func (g guardAdapter) Renewed(session string, acked protocol.Instant, p protocol.Params) {
	g.note(g.client.Deadline(session, guard.DeadlinesFrom(acked, p.T, p.Renew)))
}

func (g guardAdapter) note(err error) {
	if err != nil {
		g.log.V(1).Info("The guard was not told", "error", err.Error())
	}
}

// granted tells until when a far side may work on a key to whoever frees it, should this process die: the guard, and a successor.
func (g guardAdapter) granted(lease time.Duration) func(key elect.Key, session string, until time.Time) error {
	return func(key elect.Key, session string, until time.Time) error {
		if until.IsZero() {
			err := g.client.GrantOver(key, session)
			g.note(err)
			return err
		}
		if g.place != nil {
			if err := g.placed(g.place.Granting(key, session, lease)); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), told)
		defer cancel()
		err := g.client.Grant(ctx, key, session, guard.Now().Add(time.Until(until)))
		g.note(err)
		return err
	}
}

// taskMetrics counts runs.
type taskMetrics struct{ m *status.Metrics }

func (t taskMetrics) TaskRestart(key elect.Key) { t.m.TaskRestart(key.Group(), key.Name()) }

func (t taskMetrics) RunDone(key elect.Key, result tasks.Result, took time.Duration) {
	if result == tasks.ResultSkipped {
		took = -1 // nothing ran
	}
	t.m.TaskRun(key.Group(), key.Name(), string(result), took)
}

func (r *Replica) hooks() elect.Hooks {
	m := r.cfg.Metrics
	return elect.Hooks{
		Beat: func(took time.Duration, err error) {
			m.Heartbeat(took, err)
			r.beats.beat(took, err)
		},
		StoreOp:  m.StoreOp,
		Claim:    func(group, result string) { m.Claim(group, result, 1) },
		Release:  func(group string, reason elect.Reason) { m.Release(group, string(reason)) },
		Move:     func(group string, reason elect.Reason) { m.Move(group, string(reason)) },
		Failover: m.ObserveFailover,
		Handover: m.ObserveHandover,
	}
}

// beatBook remembers how the last heartbeats went.
type beatBook struct {
	mu   sync.Mutex
	err  error
	took time.Duration
}

func (b *beatBook) beat(took time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err, b.took = err, took
}

func (b *beatBook) failed(err error) { b.beat(0, err) }

func (b *beatBook) last() (took time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.took, b.err
}

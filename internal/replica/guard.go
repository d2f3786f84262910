package replica

import (
	"context"
	"errors"
	"time"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/guard/worker"
	"github.com/shardctl/shardctl/pkg/elect"
)

// guardAdapter passes on to the guard what the elector says. Once the guard is gone the worker exits, so a failure is
// only logged. Remote leases are the exception. A guard that merely stood still would later mark the sessions dead and
// free keys whose remote leases it does not know.
type guardAdapter struct {
	worker.Sessions

	place *worker.Place // nil without one
}

func (g guardAdapter) SessionOpening(session string) {
	if g.place != nil {
		_ = g.placed(g.place.Opening(session)) // a session that is not noted waits for its lease
	}
	g.Sessions.SessionOpening(session)
}

func (g guardAdapter) SessionOver(session string) {
	if g.place != nil {
		_ = g.placed(g.place.Closed(session)) // it is marked: marking it again does no harm
	}
	g.Sessions.SessionOver(session)
}

// placed logs what could not be noted in the place. A record that is gone is no error: nothing waits for it.
func (g guardAdapter) placed(err error) error {
	if err == nil {
		return nil
	}
	g.Log.Error(err, "The container's record cannot be written")
	if errors.Is(err, worker.ErrForgotten) {
		return nil
	}
	return err
}

// ran informs the guard of a run that works in this process, before it begins, and when it is over.
func (g guardAdapter) ran(key elect.Key, session string, over bool) error {
	if over {
		err := g.Client.RunInsideOver(key, session)
		g.Note(err)
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), worker.WriteLimit)
	defer cancel()
	err := g.Client.RunInside(ctx, key, session)
	g.Note(err)
	if err != nil {
		g.Note(g.Client.RunInsideOver(key, session)) // it may be written after all
	}
	return err
}

// granted notes until when an HTTP endpoint may work on a key, for those who free the key should this process die. They
// are the guard, and a successor in the same place.
func (g guardAdapter) granted(lease time.Duration) func(key elect.Key, session string, until time.Time) error {
	return func(key elect.Key, session string, until time.Time) error {
		if until.IsZero() {
			err := g.Client.RemoteLeaseOver(key, session)
			g.Note(err)
			return err
		}
		if g.place != nil {
			if err := g.placed(g.place.RemoteLease(key, session, lease)); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), worker.WriteLimit)
		defer cancel()
		err := g.Client.RemoteLease(ctx, key, session, wire.Now().Add(time.Until(until)))
		g.Note(err)
		return err
	}
}

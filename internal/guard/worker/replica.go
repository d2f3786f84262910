package worker

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Replica tells the guard, and a successor in the same place, what a replica does. Once the guard is gone the worker
// exits, so a failure is only logged. What may work on a key beyond the end of this process is the exception: a guard
// that merely stood still would later mark the sessions dead and free keys without knowing of it. Use NewReplica.
type Replica struct {
	Sessions

	place  *Place // nil without one
	leases Leases
	usage  usageMeter
}

// Leases are how long what a replica grants may last at a time.
type Leases struct {
	Remote      time.Duration // of HTTP endpoints
	Application time.Duration
}

// NewReplica tells a guard of a replica. place may be nil.
func NewReplica(client *Client, place *Place, leases Leases, log logr.Logger) *Replica {
	return &Replica{Sessions: Sessions{Client: client, Log: log}, place: place, leases: leases}
}

// Start has the guard start a command: see [Commands.Start].
func (g *Replica) Start(ctx context.Context, cmd taskrun.Command) (taskrun.Process, error) {
	return g.Client.Commands.Start(ctx, cmd)
}

// MeasureCPU is [Client.MeasureCPU]. What it measures comes from Loads.
func (g *Replica) MeasureCPU() error { return g.Client.MeasureCPU() }

// Loads waits for the next measurement, and returns how many processors each command has used on average since the one
// before. It returns nil once ctx is done. One goroutine may call it.
func (g *Replica) Loads(ctx context.Context) map[elect.Key]float64 {
	for {
		select {
		case used := <-g.Client.Used():
			if loads := g.usage.take(used); loads != nil {
				return loads
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// SessionOpening implements [electing.Guard].
func (g *Replica) SessionOpening(session string) {
	if g.place != nil {
		_ = g.placed(g.place.Opening(session)) // a session that is not noted waits for its lease
	}
	g.Sessions.SessionOpening(session)
}

// SessionOver implements [electing.Guard].
func (g *Replica) SessionOver(session string) {
	if g.place != nil {
		_ = g.placed(g.place.Closed(session)) // it is marked: marking it again does no harm
	}
	g.Sessions.SessionOver(session)
}

// placed logs what could not be noted in the place. A record that is gone is no error: nothing waits for it.
func (g *Replica) placed(err error) error {
	if err == nil {
		return nil
	}
	g.Log.Error(err, "The container's record cannot be written")
	if errors.Is(err, ErrForgotten) {
		return nil
	}
	return err
}

// RunInside informs the guard of a run that works in this process, before it begins, and when it is over.
func (g *Replica) RunInside(key elect.Key, session string, over bool) error {
	if over {
		err := g.Client.Announcer.RunInsideOver(key, session)
		g.Note(err)
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), WriteLimit)
	defer cancel()
	err := g.Client.Announcer.RunInside(ctx, key, session)
	g.Note(err)
	if err != nil {
		g.Note(g.Client.Announcer.RunInsideOver(key, session)) // it may be written after all
	}
	return err
}

// RemoteLease notes until when an HTTP endpoint may work on a key, before the endpoint is told; the zero time: it has
// stopped. Those who free the key should this process die go by it.
func (g *Replica) RemoteLease(key elect.Key, session string, until time.Time) error {
	if until.IsZero() {
		err := g.Client.Announcer.RemoteLeaseOver(key, session)
		g.Note(err)
		return err
	}
	if err := g.lasting(key, session, g.leases.Remote); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), WriteLimit)
	defer cancel()
	err := g.Client.Announcer.RemoteLease(ctx, key, session, wire.Now().Add(time.Until(until)))
	g.Note(err)
	return err
}

// lasting has a successor in the same place know that something may work on a key for so long from now on.
func (g *Replica) lasting(key elect.Key, session string, most time.Duration) error {
	if g.place == nil {
		return nil
	}
	return g.placed(g.place.RemoteLease(key, session, most))
}

// Assigning notes that an application which the guard did not start may run a key, before it may learn of it.
func (g *Replica) Assigning(session string, key elect.Key) error {
	if err := g.lasting(key, session, g.leases.Application); err != nil {
		return err
	}
	err := g.Client.Announcer.ApplicationKey(key, session, false)
	g.Note(err)
	return err
}

// Released notes that nothing of a key runs in the application.
func (g *Replica) Released(session string, key elect.Key) {
	g.Note(g.Client.Announcer.ApplicationKey(key, session, true))
}

// ValidFor notes that the application may go on for so long, before it is promised that.
func (g *Replica) ValidFor(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), WriteLimit)
	defer cancel()
	err := g.Client.Announcer.ApplicationValid(ctx, wire.Now().Add(d))
	g.Note(err)
	return err
}

package worker

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/pkg/elect"
)

// SessionOpening gives the guard a session's uuid. It returns once that is written, and only then may the session be
// inserted: should this process die, the guard marks it dead.
func (c *Client) SessionOpening(ctx context.Context, uuid string) error {
	c.mu.Lock()
	c.sessions[uuid] = true
	c.mu.Unlock()
	return c.written(ctx, "announce a session", wire.SessionOpening{Session: uuid})
}

// SessionClosed informs the guard that a session is marked dead and all of its work is gone: nothing is left to do for
// it.
func (c *Client) SessionClosed(uuid string) error {
	return failed("close a session", c.conn.Send(wire.SessionClosed{Session: uuid}))
}

// Deadline gives the guard a session's moments after an acknowledged heartbeat. It never blocks: of those that wait to
// be sent only the newest is.
func (c *Client) Deadline(session string, d wire.Deadlines) error {
	return failed("move a deadline", c.conn.Send(wire.Renewed{Session: session, Deadlines: d}))
}

// RemoteLease informs the guard until when an HTTP endpoint may work on a key. It returns once that is written, and
// only then may the endpoint be informed.
func (c *Client) RemoteLease(ctx context.Context, key elect.Key, session string, until elect.Instant) error {
	lease := wire.RemoteLease{Session: session, Key: key, Until: &until}
	return c.written(ctx, "announce a remote lease", lease)
}

// RemoteLeaseOver informs the guard that the HTTP endpoint has acknowledged its stop.
func (c *Client) RemoteLeaseOver(key elect.Key, session string) error {
	return failed("end a remote lease", c.conn.Send(wire.RemoteLease{Session: session, Key: key}))
}

// RunInside informs the guard that a run of a key is about to work in this process. It returns once that is written,
// and only then may the run begin: should it go on at X, the guard kills this process.
func (c *Client) RunInside(ctx context.Context, key elect.Key, session string) error {
	return c.written(ctx, "announce a run", wire.RunInside{Session: session, Key: key})
}

// RunInsideOver informs the guard that the run has ended.
func (c *Client) RunInsideOver(key elect.Key, session string) error {
	return failed("end a run", c.conn.Send(wire.RunInside{Session: session, Key: key, Over: true}))
}

// ApplicationKey informs the guard that an application which it did not start may run a key, or does no longer. The
// next [Client.ApplicationValid] comes after it.
func (c *Client) ApplicationKey(key elect.Key, session string, over bool) error {
	return failed("announce a key", c.conn.Send(wire.ApplicationKey{Session: session, Key: key, Over: over}))
}

// ApplicationValid informs the guard until when that application may run its keys. It returns once that is written, and
// only then may the application be informed.
func (c *Client) ApplicationValid(ctx context.Context, until elect.Instant) error {
	return c.written(ctx, "announce a validity", wire.ApplicationValid{Until: until})
}

// Sessions passes on to the guard what an elector reports of its sessions: it is an [electing.Guard]. Once the guard is
// gone the worker exits, so a failure is only logged.
type Sessions struct {
	Client *Client
	Log    logr.Logger
}

var _ electing.Guard = Sessions{}

// WriteLimit is how long writing to the guard may take. A slower guard counts as gone.
const WriteLimit = 5 * time.Second

// SessionOpening implements [electing.Guard].
func (s Sessions) SessionOpening(session string) {
	ctx, cancel := context.WithTimeout(context.Background(), WriteLimit)
	defer cancel()
	s.Note(s.Client.SessionOpening(ctx, session))
}

// SessionOver implements [electing.Guard].
func (s Sessions) SessionOver(session string) { s.Note(s.Client.SessionClosed(session)) }

// Renewed implements [electing.Guard].
func (s Sessions) Renewed(session string, acked elect.Instant, lease, renew time.Duration) {
	s.Note(s.Client.Deadline(session, wire.DeadlinesFrom(acked, lease, renew)))
}

// Note logs that a message did not reach the guard.
func (s Sessions) Note(err error) {
	if err != nil {
		s.Log.V(1).Info("The guard did not get a message", "error", err.Error())
	}
}

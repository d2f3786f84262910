package worker

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Announcer informs the guard of sessions, and of what works on their keys. Its methods may be called concurrently. They
// wait only where they say so.
type Announcer struct {
	conn *wire.Conn

	mu       sync.Mutex
	sessions map[string]bool // whose processes may still run
}

// announced returns the sessions whose processes may still run.
func (a *Announcer) announced() map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.sessions)
}

// SessionOpening gives the guard a session's uuid. It returns once that is written, and only then may the session be
// inserted: should this process die, the guard marks it dead.
func (a *Announcer) SessionOpening(ctx context.Context, uuid string) error {
	a.mu.Lock()
	a.sessions[uuid] = true
	a.mu.Unlock()
	return written(ctx, a.conn, "announce a session", wire.SessionOpening{Session: uuid})
}

// SessionClosed informs the guard that a session is marked dead and all of its work is gone: nothing is left to do for
// it.
func (a *Announcer) SessionClosed(uuid string) error {
	return failed("close a session", a.conn.Send(wire.SessionClosed{Session: uuid}))
}

// Deadline gives the guard a session's moments after an acknowledged heartbeat. It never blocks: of those that wait to
// be sent only the newest is.
func (a *Announcer) Deadline(session string, d wire.Deadlines) error {
	return failed("move a deadline", a.conn.Send(wire.Renewed{Session: session, Deadlines: d}))
}

// RemoteLease informs the guard until when an HTTP endpoint may work on a key. It returns once that is written, and
// only then may the endpoint be informed.
func (a *Announcer) RemoteLease(ctx context.Context, key elect.Key, session string, until elect.Instant) error {
	lease := wire.RemoteLease{Session: session, Key: key, Until: &until}
	return written(ctx, a.conn, "announce a remote lease", lease)
}

// RemoteLeaseOver informs the guard that the HTTP endpoint has acknowledged its stop.
func (a *Announcer) RemoteLeaseOver(key elect.Key, session string) error {
	return failed("end a remote lease", a.conn.Send(wire.RemoteLease{Session: session, Key: key}))
}

// RunInside informs the guard that a run of a key is about to work in this process. It returns once that is written,
// and only then may the run begin: should it go on at X, the guard kills this process.
func (a *Announcer) RunInside(ctx context.Context, key elect.Key, session string) error {
	return written(ctx, a.conn, "announce a run", wire.RunInside{Session: session, Key: key})
}

// RunInsideOver informs the guard that the run has ended.
func (a *Announcer) RunInsideOver(key elect.Key, session string) error {
	return failed("end a run", a.conn.Send(wire.RunInside{Session: session, Key: key, Over: true}))
}

// ApplicationKey informs the guard that an application which it did not start may run a key, or does no longer. The
// next [Announcer.ApplicationValid] comes after it.
func (a *Announcer) ApplicationKey(key elect.Key, session string, over bool) error {
	return failed("announce a key", a.conn.Send(wire.ApplicationKey{Session: session, Key: key, Over: over}))
}

// ApplicationValid informs the guard until when that application may run its keys. It returns once that is written, and
// only then may the application be informed.
func (a *Announcer) ApplicationValid(ctx context.Context, until elect.Instant) error {
	return written(ctx, a.conn, "announce a validity", wire.ApplicationValid{Until: until})
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
	s.Note(s.Client.Announcer.SessionOpening(ctx, session))
}

// SessionOver implements [electing.Guard].
func (s Sessions) SessionOver(session string) { s.Note(s.Client.Announcer.SessionClosed(session)) }

// Renewed implements [electing.Guard].
func (s Sessions) Renewed(session string, acked elect.Instant, lease, renew time.Duration) {
	s.Note(s.Client.Announcer.Deadline(session, wire.DeadlinesFrom(acked, lease, renew)))
}

// Note logs that a message did not reach the guard.
func (s Sessions) Note(err error) {
	if err != nil {
		s.Log.V(1).Info("The guard did not get a message", "error", err.Error())
	}
}

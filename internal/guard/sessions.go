package guard

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Sessions passes on to the guard what an elector says of its sessions: it is an [elect.Guard]. Once the guard is gone
// the worker exits, so a failure is only logged.
type Sessions struct {
	Client *Client
	Log    logr.Logger
}

var _ elect.Guard = Sessions{}

// WriteLimit is how long writing to the guard may take. A slower guard counts as gone.
const WriteLimit = 5 * time.Second

// SessionOpening implements [elect.Guard].
func (s Sessions) SessionOpening(session string) {
	ctx, cancel := context.WithTimeout(context.Background(), WriteLimit)
	defer cancel()
	s.Note(s.Client.SessionOpening(ctx, session))
}

// SessionOver implements [elect.Guard].
func (s Sessions) SessionOver(session string) { s.Note(s.Client.SessionClosed(session)) }

// Renewed implements [elect.Guard].
func (s Sessions) Renewed(session string, acked elect.Instant, lease, renew time.Duration) {
	s.Note(s.Client.Deadline(session, DeadlinesFrom(acked, lease, renew)))
}

// Note logs that a message did not reach the guard.
func (s Sessions) Note(err error) {
	if err != nil {
		s.Log.V(1).Info("The guard did not get a message", "error", err.Error())
	}
}

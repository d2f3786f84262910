package route

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// Source is where the newest snapshot is found, as in package status.
type Source interface {
	Snapshot() *snapshot.Cluster
	Changed() <-chan struct{}
}

// owners finds them in snapshots. It implements client.Finder.
type owners struct{ source Source }

// Await waits only for another owner than one that refused.
func (o owners) Await(ctx context.Context, key string, refused int64, most time.Duration) (api.KeyOwner, error) {
	over := time.NewTimer(most)
	defer over.Stop()
	for waiting := refused != 0; ; {
		changed := o.source.Changed()
		owner, bad := ownerOf(o.source.Snapshot(), key)
		switch {
		case bad == nil && (owner.FencingToken != refused || !waiting):
			return owner, nil
		case !waiting:
			return api.KeyOwner{}, refusal{bad}
		}
		select {
		case <-changed:
		case <-over.C:
			waiting = false
		case <-ctx.Done():
			return api.KeyOwner{}, context.Cause(ctx)
		}
	}
}

// ownerOf is the owner of a key, with an address.
func ownerOf(s *snapshot.Cluster, key string) (api.KeyOwner, *web.Error) {
	if s == nil {
		return api.KeyOwner{}, web.Unavailable(api.ReasonNotReady, "nothing is known of the cluster yet")
	}
	owner, owned := s.Owner(key)
	switch {
	case owned:
	case s.Task(key) == nil:
		return api.KeyOwner{}, web.NotFound("no task %.200q is declared", key)
	default:
		return api.KeyOwner{}, web.Unavailable(api.ReasonNotOwned, "%s has no owner now", key)
	}
	if host, _, err := net.SplitHostPort(owner.Address); err != nil || host == "" {
		return api.KeyOwner{}, web.Unavailable(api.ReasonNoAddress,
			"%s is owned by %s, which has no address for requests: see app.address", key, owner.Instance)
	}
	return owner, nil
}

// refusal is an answer as an error.
type refusal struct{ answer *web.Error }

// Error is the sentence for people.
func (r refusal) Error() string { return r.answer.Detail }

func answerError(w http.ResponseWriter, _ *http.Request, err error) { errorOf(err).Write(w) }

// errorOf is the answer to a request that could not be forwarded. With a 503 it was not sent; with a 502 or a 504 it
// may have been carried out.
func errorOf(err error) *web.Error {
	if refused, ok := errors.AsType[refusal](err); ok {
		return refused.answer
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return web.NewError(http.StatusRequestEntityTooLarge, api.ReasonTooLarge,
			"a body of more than %d MiB is not forwarded", tooLarge.Limit>>20)
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return web.Unavailable(api.ReasonOwnerUnreachable, "the owner cannot be connected to: %v", failed.Err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return web.NewError(http.StatusGatewayTimeout, api.ReasonOwnerTimeout, "the owner took longer than %s", maxTime)
	}
	return web.NewError(http.StatusBadGateway, api.ReasonOwnerFailed, "the owner broke the connection: %v", err)
}

package balancer

import (
	"context"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Elector is what the loop needs of package elect: *elect.Elector is one.
type Elector interface {
	// View is the newest snapshot, which stays as it is. Changed is closed once there is a newer one.
	View() *elect.View
	Changed() <-chan struct{}
	// Done is closed when the elector has ended. Methods return [elect.ErrClosed] then.
	Done() <-chan struct{}
	// Track says which groups the View shall show.
	Track(ctx context.Context, groups ...string) error
	// Claim asks for keys, as far as caps allow, and does not wait for them. With opts.Seen, keys are left out whose
	// locks have changed since.
	Claim(ctx context.Context, keys []elect.Key, opts elect.LockOptions, run func(elect.Key) elect.Runnable) error
	// TakeReserved has keys claimed that are handed over to this session, the moment this is seen. run returns nil
	// for a key that is not declared here.
	TakeReserved(ctx context.Context, run func(elect.Key) elect.Runnable) error
	// GiveUp releases keys, or hands them over, and does not wait. One that is being released stays as it is.
	GiveUp(ctx context.Context, moves ...elect.HandOver) error
	// Decline clears reservations that cannot be taken here.
	Decline(ctx context.Context, keys ...elect.Key) error
}

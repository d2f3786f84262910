package elect

import (
	"sync/atomic"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// core is what the loop shares with everything else. Nothing in it changes but by its own methods.
type core struct {
	*documents
	cfg     Config
	p       protocol.Params
	clock   Clock
	log     logr.Logger
	box     *mailbox
	times   *storeClock
	course  *course
	lease   atomic.Pointer[validity]
	view    atomic.Pointer[cluster.View]
	changed engine.Broadcast
	claims  *claimNames
}

// validity is what leases need to know, readable without the loop.
type validity struct {
	session string
	open    bool
	acked   protocol.Instant
}

func newCore(cfg Config, p protocol.Params) *core {
	c := &core{
		cfg: cfg, p: p, clock: cfg.Clock, log: cfg.Logger,
		box: newMailbox(), times: &storeClock{local: cfg.Clock}, course: newCourse(), changed: engine.NewBroadcast(),
		claims: newClaimNames(),
	}
	c.documents = &documents{
		store: timedStore{courseStore{&movedStore{Store: cfg.Store}, c.course}, c.times}, op: p.Op, log: c.log,
	}
	c.lease.Store(&validity{})
	c.view.Store(&cluster.View{})
	return c
}

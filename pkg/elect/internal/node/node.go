package node

import (
	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect/internal/audit"
	"github.com/shardctl/shardctl/pkg/elect/internal/leases"
	"github.com/shardctl/shardctl/pkg/elect/internal/liveness"
	"github.com/shardctl/shardctl/pkg/elect/internal/mutexes"
	"github.com/shardctl/shardctl/pkg/elect/internal/session"
	"github.com/shardctl/shardctl/pkg/elect/internal/waiters"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Config is what a node is made of.
type Config struct {
	Params       protocol.Params
	Member       record.Member
	Predecessors []liveness.Predecessor
	NewID        func() string // names of sessions, each never used before
	Log          logr.Logger

	Clock    Clock
	Store    Store
	Runs     Runs
	Calls    Calls // of mutexes; nil where nobody calls
	Cache    Cache
	Observer Observer
}

// Node is one process's part in the protocol. It is not safe for concurrent use. Who drives it may ask the
// components, and hand them events of their own.
type Node struct {
	Session *session.Own
	Peers   *liveness.Peers
	Leases  *leases.Table
	Mutexes *mutexes.Table
	Outbox  *Outbox
	Waiters *waiters.Waiters

	p        protocol.Params
	log      logr.Logger
	clock    Clock
	store    Store
	runs     Runs
	calls    Calls
	cache    Cache
	observer Observer
	audit    *auditor
	course   *course
	changes  Changes
}

// Changes is what is new to a view.
type Changes struct {
	View     bool // something of it has changed
	Locks    bool // and the locks have
	Held     bool // and what is held here has
	Sessions bool // and who is alive has, the own session included
	// when the store last showed the own session below a revision it had acknowledged; zero: not since the last call
	Forgot protocol.Instant
}

// New is a node that is about to open its first session.
func New(c Config) *Node {
	now := c.Clock.Now()
	n := &Node{
		Session: session.New(c.Params, c.Member, c.NewID),
		Peers:   liveness.New(c.Params, now, c.Predecessors),
		Leases:  leases.New(c.Params),
		Mutexes: mutexes.New(c.Params),
		Waiters: waiters.New(),
		p:       c.Params, log: c.Log, clock: c.Clock, runs: c.Runs, calls: c.Calls,
		cache: c.Cache, observer: c.Observer,
	}
	n.course = &course{Store: c.Store}
	n.store = n.course
	n.Outbox = &Outbox{
		store: n.store, cache: c.Cache, leases: n.Leases, table: n.Mutexes, session: n.Session, moment: n.Moment,
		retry: c.Params.Retry,
	}
	n.audit = &auditor{Node: n, audit: audit.New(c.Params, now)}
	n.Leases.SetLimits(limits(n.Session.Member.Record()))
	return n
}

// Moment is one look at all clocks and at the lease.
func (n *Node) Moment() protocol.Moment {
	m := n.clock.Moment()
	m.Valid = n.Session.Valid(m.Now)
	return m
}

// SetMember changes what the instance says of itself, and what it may claim.
func (n *Node) SetMember(m record.Member) {
	n.Session.Member.Set(m)
	n.Leases.SetLimits(limits(n.Session.Member.Record()))
}

// limits are what the member allows.
func limits(m record.Member) leases.Limits { return leases.Limits{Caps: m.Caps, MaxTasks: m.MaxTasks} }

// auditor carries what the audit wants to know, and repairs what it finds.
type auditor struct {
	*Node
	audit *audit.Audit
}

package elect

import "github.com/shardctl/shardctl/pkg/elect/record"

// Names of package record that users of this package meet.
type (
	// Key names what is locked: GROUP/NAME.
	Key = record.Key
	// Reason says in one word why a key changed its owner.
	Reason = record.Reason
	// SessionState is the life of a session: live, then draining, then dead.
	SessionState = record.SessionState
	// Session is one process's membership.
	Session = record.Session
	// Member is what a session says of itself.
	Member = record.Member
	// Lock says who owns a key.
	Lock = record.Lock
	// TaskStatus is what the owner says of the work.
	TaskStatus = record.TaskStatus
	// RunOutcome is how a task that ends by itself ended.
	RunOutcome = record.RunOutcome
	// Event is something that happened to a key, an instance or a configuration.
	Event = record.Event
)

// The states of a session.
const (
	Live     = record.Live
	Draining = record.Draining
	Dead     = record.Dead
)

// The reasons of moves.
const (
	ReasonCreated   = record.ReasonCreated
	ReasonOrphaned  = record.ReasonOrphaned
	ReasonBalance   = record.ReasonBalance
	ReasonDrain     = record.ReasonDrain
	ReasonShutdown  = record.ReasonShutdown
	ReasonPin       = record.ReasonPin
	ReasonMove      = record.ReasonMove
	ReasonUpgrade   = record.ReasonUpgrade
	ReasonRestarted = record.ReasonRestarted
	ReasonRemoved   = record.ReasonRemoved
	ReasonPaused    = record.ReasonPaused
)

// NewKey joins a group and a name.
func NewKey(group, name string) Key { return record.NewKey(group, name) }

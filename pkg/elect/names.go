package elect

import "github.com/shardctl/shardctl/pkg/elect/record"

// The records that users of this package meet.
type (
	Key          = record.Key
	Reason       = record.Reason
	SessionState = record.SessionState
	Session      = record.Session
	Member       = record.Member
	Lock         = record.Lock
	TaskStatus   = record.TaskStatus
	RunOutcome   = record.RunOutcome
	WishKind     = record.OverrideKind
	Wish         = record.Override
	Event        = record.Event
)

const (
	Live     = record.Live
	Draining = record.Draining
	Dead     = record.Dead

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

	WishDrain = record.OverrideDrain
	WishPause = record.OverridePause
	WishPin   = record.OverridePin
	WishRerun = record.OverrideRerun
)

// NewKey joins a group and a name.
func NewKey(group, name string) Key { return record.NewKey(group, name) }

var (
	SessionFrom = record.SessionFrom
	MemberFrom  = record.MemberFrom
	LockFrom    = record.LockFrom
	WishFrom    = record.OverrideFrom
	EventFrom   = record.EventFrom
)

package engine

import (
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
)

// Event is something that has happened, for who observes an engine: one of the following types, an [Acked] write of a
// lock, or a [Freed] key.
//
//sumtype:decl
type Event interface{ event() }

type (
	// LeaseChanged says what the deadlines of all runs count from. It comes before any run is started or stopped
	// because of it.
	LeaseChanged struct {
		Session string
		Lease   protocol.Lease
	}
	// LeaseRenewed says that a heartbeat was acknowledged: the deadlines count from its sending.
	LeaseRenewed struct {
		Session string
		Acked   protocol.Instant
	}
	// SessionOpening names a session before its document is created.
	SessionOpening struct{ Session string }
	// SessionOver says that the session is known to be dead.
	SessionOver struct{ Session string }
	// KeyClaiming reports a claim that is to be written.
	KeyClaiming struct{ Key record.Key }
	// RunStarted reports a run that was started.
	RunStarted struct {
		Start Start
		At    protocol.Moment
	}
	// KeyStopping reports that the runs of a key are about to be asked to end.
	KeyStopping struct{ Key record.Key }
	// StoreOperation reports a store operation. It comes from a goroutine of its own.
	StoreOperation struct {
		Op   string
		Took time.Duration
		Err  error
	}
	// HeartbeatAnswered reports a heartbeat, likewise.
	HeartbeatAnswered struct {
		Took time.Duration
		Err  error // why it was not acknowledged
	}
	// EventsWritten reports that some instance has written events.
	EventsWritten struct{}
	// ListPublished reports that some instance has published a list that replicas read.
	ListPublished struct{}
)

func (LeaseChanged) effect() {}
func (LeaseRenewed) effect() {}

func (LeaseChanged) event()      {}
func (LeaseRenewed) event()      {}
func (SessionOpening) event()    {}
func (SessionOver) event()       {}
func (KeyClaiming) event()       {}
func (RunStarted) event()        {}
func (KeyStopping) event()       {}
func (StoreOperation) event()    {}
func (HeartbeatAnswered) event() {}
func (EventsWritten) event()     {}
func (ListPublished) event()     {}

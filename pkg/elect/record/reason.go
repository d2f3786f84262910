package record

// Reason says in one word why a key changed its owner. The same word stands in the API, the command line, logs and
// metric labels.
type Reason string

// The reasons of moves.
const (
	ReasonCreated   Reason = "Created"   // owned for the first time
	ReasonOrphaned  Reason = "Orphaned"  // its owner died
	ReasonBalance   Reason = "Balance"   // spread
	ReasonDrain     Reason = "Drain"     // its owner is drained
	ReasonShutdown  Reason = "Shutdown"  // its owner is stopping
	ReasonPin       Reason = "Pin"       // pinned elsewhere
	ReasonMove      Reason = "Move"      // moved manually
	ReasonUpgrade   Reason = "Upgrade"   // to a newer revision
	ReasonRestarted Reason = "Restarted" // taken again by the same instance
	ReasonRemoved   Reason = "Removed"   // no longer declared
	ReasonPaused    Reason = "Paused"
	ReasonResumed   Reason = "Resumed" // claimed again after a pause
	ReasonRerun     Reason = "Rerun"   // claimed again since an operator wants it to run again
)

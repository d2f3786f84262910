package record

// The states of an owned task, as in [TaskStatus.State].
const (
	StateWaiting  = "waiting" // between ticks
	StateStarting = "starting"
	StateRunning  = "running"
	StateStopping = "stopping"
	StateBackoff  = "backoff"
	StateDone     = "done"
	StateFailed   = "failed"
)

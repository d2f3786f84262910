package api

// The headers of an answer of logs.
const (
	// LogPositionHeader says up to where its output goes. It is opaque, and what ?after= takes.
	LogPositionHeader = "Shardctl-Log-Position"
	// LogInstanceHeader names the instance on which the task wrote it.
	LogInstanceHeader = "Shardctl-Log-Instance"
	// LogTokenHeader is the fencing token of the newest start of the task there.
	LogTokenHeader = "Shardctl-Log-Fencing-Token" //nolint:gosec // G101: a header's name
	// LogEndedHeader is true when that instance did not hold the task any more; else it is absent.
	LogEndedHeader = "Shardctl-Log-Ended"
)
